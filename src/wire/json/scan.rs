//! Runs of plain bytes in a text, looked at sixteen at a time where the machine can. Knows of JSON's strings which bytes
//! are special in them, and nothing else.

/// The first byte from `at` on that is not plain within a string: a quote, a backslash, or a control character. The text's
/// length where there is none.
#[inline(always)]
pub fn plain(text: &[u8], at: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    return wide::plain(text, at);
    #[cfg(not(target_arch = "x86_64"))]
    return narrow::plain(text, at);
}

/// Whether the bytes from `start` to `end` are ASCII without a backslash: a string's text that stands there as it is.
#[inline(always)]
pub fn is_simple(text: &[u8], start: usize, end: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    return wide::is_simple(text, start, end);
    #[cfg(not(target_arch = "x86_64"))]
    return narrow::is_simple(text, start, end);
}

/// As the standard library's, which looks at what is left of whole chunks byte by byte.
pub fn is_ascii(text: &[u8]) -> bool {
    const CHUNK: usize = 64;
    match text.last_chunk::<CHUNK>() {
        Some(last) => text.as_chunks::<CHUNK>().0.as_flattened().is_ascii() && last.is_ascii(),
        None => text.is_ascii(),
    }
}

/// By SSE2, which every x86-64 has.
#[cfg(target_arch = "x86_64")]
mod wide {
    use super::narrow;
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };

    const WIDTH: usize = 16;
    type Sixteen = [u8; WIDTH];

    /// The sixteen bytes at `at`, where there are so many.
    #[inline(always)]
    fn sixteen(text: &[u8], at: usize) -> Option<&Sixteen> {
        text.get(at..)?.first_chunk()
    }

    /// A bit for each byte that is special in a string, the first byte's lowest.
    #[inline(always)]
    fn special(bytes: &Sixteen) -> u32 {
        // SAFETY: SSE2 is a part of every x86-64, sixteen bytes are there to be read, and no alignment is asked for.
        unsafe {
            let bytes = _mm_loadu_si128(bytes.as_ptr().cast());
            let control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
            let quote = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'"' as i8));
            let escape = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\' as i8));
            _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, escape), control)) as u32
        }
    }

    /// A bit for each byte that is no ASCII, or a backslash.
    #[inline(always)]
    fn not_simple(bytes: &Sixteen) -> u32 {
        // SAFETY: as above.
        unsafe {
            let bytes = _mm_loadu_si128(bytes.as_ptr().cast());
            let escape = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\' as i8));
            // The high bit is what is taken of each byte.
            _mm_movemask_epi8(_mm_or_si128(escape, bytes)) as u32
        }
    }

    #[inline(always)]
    pub fn plain(text: &[u8], at: usize) -> usize {
        // Most strings are short.
        match sixteen(text, at).map(special) {
            Some(found) if found != 0 => at + found.trailing_zeros() as usize,
            Some(_) => more_plain(text, at + WIDTH),
            None => last_plain(text, at),
        }
    }

    #[inline(never)]
    fn more_plain(text: &[u8], at: usize) -> usize {
        let mut i = at;
        while let Some(bytes) = sixteen(text, i) {
            let found = special(bytes);
            if found != 0 {
                return i + found.trailing_zeros() as usize;
            }
            i += WIDTH;
        }
        last_plain(text, i)
    }

    /// As [`plain`], where fewer than sixteen bytes are left: with what stands before them they are sixteen again.
    #[cold]
    fn last_plain(text: &[u8], at: usize) -> usize {
        let Some(bytes) = text.last_chunk() else { return narrow::plain(text, at) };
        let start = text.len() - WIDTH;
        let seen = at.min(text.len()) - start;
        match special(bytes) >> seen << seen {
            0 => text.len(),
            found => start + found.trailing_zeros() as usize,
        }
    }

    #[inline(always)]
    pub fn is_simple(text: &[u8], start: usize, end: usize) -> bool {
        let mut i = start;
        while let Some(bytes) = sixteen(text, i) {
            let found = not_simple(bytes);
            if end <= i + WIDTH {
                return found & ((1 << (end - i)) - 1) == 0;
            }
            if found != 0 {
                return false;
            }
            i += WIDTH;
        }
        narrow::is_simple(text, i, end)
    }
}

/// On any machine: by words of eight bytes, and byte by byte.
mod narrow {
    /// A byte is special where subtracting borrows from its high bit.
    #[inline]
    pub fn plain(text: &[u8], at: usize) -> usize {
        const ONES: u64 = u64::MAX / 255;
        const HIGHS: u64 = ONES << 7;
        let has_zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
        let mut i = at;
        while let Some(eight) = text.get(i..).and_then(<[u8]>::first_chunk) {
            let word = u64::from_le_bytes(*eight);
            let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
            let found = control
                | has_zero(word ^ (ONES * u64::from(b'"')))
                | has_zero(word ^ (ONES * u64::from(b'\\')));
            if found != 0 {
                // The lowest mark is exact: borrows run upwards only.
                return i + found.trailing_zeros() as usize / 8;
            }
            i += 8;
        }
        let rest = text.get(i..).unwrap_or_default();
        let special = |&b: &u8| b == b'"' || b == b'\\' || b < 0x20;
        rest.iter().position(special).map_or(text.len(), |n| i + n)
    }

    #[inline]
    pub fn is_simple(text: &[u8], start: usize, end: usize) -> bool {
        text[start..end].iter().all(|&b| b.is_ascii() && b != b'\\')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_run_ends_at_the_first_byte_that_is_none() {
        for special in [b'"', b'\\', 0, 0x1f] {
            for length in 0..40 {
                let mut text = vec![b'~'; 40];
                text[length] = special;
                for found in [plain(&text, 0), narrow::plain(&text, 0)] {
                    assert_eq!(found, length, "{special} at {length}");
                }
            }
        }
        let high = "é€😀\u{7f} \u{80}".repeat(9);
        assert_eq!(plain(high.as_bytes(), 0), high.len());
    }

    proptest::proptest! {
        #[test]
        fn ascii_is_what_the_standard_library_calls_so(
            text in proptest::collection::vec(proptest::prop_oneof![200 => 0u8..0x80, 1 => 0u8..], 0..200),
        ) {
            proptest::prop_assert_eq!(is_ascii(&text), text.is_ascii());
        }

        #[test]
        fn a_plain_run_is_what_a_byte_by_byte_look_finds(
            text in proptest::collection::vec(proptest::prop_oneof![8 => 0x20u8.., 1 => 0u8..], 0..70),
            at in 0usize..80,
        ) {
            let rest = text.get(at..).unwrap_or_default();
            let slow = rest.iter().position(|&b| b == b'"' || b == b'\\' || b < 0x20).map_or(text.len(), |n| at + n);
            proptest::prop_assert_eq!(plain(&text, at), slow);
            proptest::prop_assert_eq!(narrow::plain(&text, at), slow);
        }

        #[test]
        fn simple_is_what_a_byte_by_byte_look_calls_so(
            text in proptest::collection::vec(proptest::prop_oneof![40 => 0x20u8..0x80, 1 => 0u8..], 0..70),
            start in 0usize..70,
            length in 0usize..70,
        ) {
            let start = start.min(text.len());
            let end = (start + length).min(text.len());
            let slow = text[start..end].iter().all(|&b| b < 0x80 && b != b'\\');
            proptest::prop_assert_eq!(is_simple(&text, start, end), slow);
            proptest::prop_assert_eq!(narrow::is_simple(&text, start, end), slow);
        }
    }
}
