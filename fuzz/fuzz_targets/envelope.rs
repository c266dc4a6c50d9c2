//! Any bytes as a client's body: no panic, and what is read as a message is JSON that writes back to the same message.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use plasm_mcp::wire::envelope::{self, Body};
use plasm_mcp::wire::{Message, Raw, params::Params, results::ResultView};

fuzz_target!(|text: &[u8]| {
    let Ok(body) = envelope::read_body(Bytes::copy_from_slice(text), 128) else { return };
    let messages = match body {
        Body::One(message) => vec![message],
        Body::Batch(batch) => batch.into_iter().flatten().collect(),
    };
    for message in messages {
        let (written, params) = match &message {
            Message::Request(r) => (envelope::write_request(&r.id, &r.method, &r.params.raw), Some(&r.params)),
            Message::Notification(n) => (envelope::write_notification(&n.method, &n.params.raw), Some(&n.params)),
            Message::Response(r) => {
                if let Ok(result) = &r.outcome {
                    ResultView::of(result);
                }
                (envelope::write_response(r.id.as_ref(), r.outcome.as_ref()), None)
            }
        };
        let again = envelope::read(written, 128).expect("what we write, we read");
        assert_eq!(std::mem::discriminant(&again), std::mem::discriminant(&message));
        if let Some(params) = params {
            let mut params: Params = params.clone();
            let id = Bytes::from_static(b"1");
            params.add_meta(&[("k", id.clone()), ("l", id)]);
            Raw::parse(params.raw.to_bytes(), 129).expect("an edited message is still JSON");
        }
    }
});
