//! Any bytes as a stream, in any chunks: no panic, no more held than the bound, and the chunks make no difference.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plasm_mcp::wire::sse::{Decoder, SseEvent};

fn decode(text: &[u8], size: usize) -> Vec<SseEvent> {
    let mut decoder = Decoder::new(1 << 20);
    text.chunks(size).flat_map(|chunk| decoder.push(chunk).expect("shorter than the bound")).collect()
}

fuzz_target!(|input: &[u8]| {
    let Some((&size, text)) = input.split_first() else { return };
    assert_eq!(decode(text, usize::from(size).max(1)), decode(text, text.len().max(1)));
    let mut small = Decoder::new(16);
    for chunk in text.chunks(usize::from(size).max(1)) {
        if small.push(chunk).is_err() {
            return;
        }
    }
});
