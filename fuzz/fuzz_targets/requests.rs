//! Any bytes as requests on a connection, in any pieces: no panic, and the pieces make no difference to what is read.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use plasm_mcp::http1::{HeadReader, Part};

/// What was read: each request's line and headers, and its body. Ends where more must come, or at what is no request.
fn read(text: &[u8], size: usize) -> Vec<(String, Vec<u8>)> {
    let (mut reader, mut input, mut read) = (HeadReader::new(1 << 16), BytesMut::new(), Vec::new());
    let mut pieces = text.chunks(size);
    let mut body = None;
    loop {
        let framing = match &mut body {
            Some(framing) => framing,
            None => match reader.read(&mut input) {
                Ok(Some(head)) => {
                    let request = head.request;
                    let line = format!("{} {} {:?}", request.method, request.target, request.fields.map());
                    read.push((line, Vec::new()));
                    body.insert(head.framing)
                }
                Ok(None) => match pieces.next() {
                    Some(piece) => {
                        input.extend_from_slice(piece);
                        continue;
                    }
                    None => return read,
                },
                Err(_) => return read,
            },
        };
        match framing.take(&mut input) {
            Ok(Part::Data(data)) => read.last_mut().expect("a head came first").1.extend_from_slice(&data),
            Ok(Part::End) => body = None,
            Ok(Part::More) => match pieces.next() {
                Some(piece) => input.extend_from_slice(piece),
                None => return read,
            },
            Err(_) => return read,
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&size, text)) = input.split_first() else { return };
    assert_eq!(read(text, usize::from(size).max(1)), read(text, text.len().max(1)));
});
