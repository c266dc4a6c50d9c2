//! Any text through the header form and back; any bytes as a header value; any schema for its annotations.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plasm_mcp::wire::{Raw, headers, param_headers};

fuzz_target!(|bytes: &[u8]| {
    let _ = headers::decode(bytes);
    if let Ok(value) = http::HeaderValue::from_bytes(bytes) {
        let mut map = http::HeaderMap::new();
        map.append(headers::PROTOCOL_VERSION, value.clone());
        map.append(headers::NAME, value.clone());
        map.append(http::header::ACCEPT, value);
        let _ = headers::folded(&map, headers::PROTOCOL_VERSION);
        let _ = headers::decoded(&map, headers::NAME);
        let _ = headers::accepts(&map, "text", "event-stream");
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let coded = headers::encode(text);
        assert_eq!(headers::decode(coded.as_bytes()).as_deref(), Some(text));
        if let Ok(schema) = Raw::parse(text.to_owned().into(), 64) {
            let _ = param_headers::of_schema(&schema);
        }
    }
});
