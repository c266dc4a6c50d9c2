//! mimalloc as this program's allocator. The crate's own allocator asks for each block by its alignment, which mimalloc looks up
//! at length; nearly every block needs no more than it always gives.

use mimalloc::MiMalloc;
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;

/// Blocks of at least this size have at least this alignment (mimalloc's `MI_MAX_ALIGN_SIZE`); smaller ones are aligned to
/// the largest power of two that is not above their size.
const GIVEN: usize = 16;

unsafe extern "C" {
    fn mi_malloc(size: usize) -> *mut c_void;
    fn mi_zalloc(size: usize) -> *mut c_void;
    fn mi_realloc(block: *mut c_void, size: usize) -> *mut c_void;
}

pub struct Allocator;

/// Whether any block of that size is aligned well enough.
fn is_plain(layout: &Layout, size: usize) -> bool {
    layout.align() <= GIVEN && layout.align() <= size
}

// SAFETY: all blocks are mimalloc's, whichever of its functions gave them, and it takes back and grows each in the same way; a
// plain block has the alignment that its layout asks for, by what mimalloc promises.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match is_plain(&layout, layout.size()) {
            // SAFETY: it may be called with any size.
            true => unsafe { mi_malloc(layout.size()) }.cast(),
            // SAFETY: the caller's promises are passed on.
            false => unsafe { MiMalloc.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match is_plain(&layout, layout.size()) {
            // SAFETY: it may be called with any size.
            true => unsafe { mi_zalloc(layout.size()) }.cast(),
            // SAFETY: the caller's promises are passed on.
            false => unsafe { MiMalloc.alloc_zeroed(layout) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on; it makes no difference how the block was got.
        unsafe { MiMalloc.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match is_plain(&layout, size) {
            // SAFETY: the block is mimalloc's, and stays as it is where there is no room.
            true => unsafe { mi_realloc(block.cast(), size) }.cast(),
            // SAFETY: the caller's promises are passed on.
            false => unsafe { MiMalloc.realloc(block, layout, size) },
        }
    }
}
