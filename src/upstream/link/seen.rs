//! What a link tells telemetry of a call, and the trace context that it sends along: in `_meta`, whatever the era, and in headers
//! where the transport has them. Without a trace, what the client wrote there passes as it came.

use super::begin::Job;
use super::{Arc, Inner, Reply};
use crate::mcp::Event;
use crate::telemetry::Watch;
use crate::telemetry::traces::{Onward, Sent};
use crate::wire::params::Params;
use crate::wire::{Method, json};
use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderName, HeaderValue};

impl Inner {
    /// The call goes to this upstream. Gives the span of it where the call is traced; its params then bear the context.
    pub(super) fn notice(&self, watch: &Watch, job: &mut Job) -> Option<Onward> {
        let params = &job.params;
        let tool = job.name.as_deref().filter(|_| job.method == Method::ToolsCall);
        let arguments = || Some(params.raw.written(params.arguments.as_ref()?));
        watch.at(&self.meters, tool, arguments);
        let transport = if self.reach.http.is_some() { "http" } else { "stdio" };
        let onward = watch.onward(self.id().as_str(), tool, transport)?;
        carry(&mut job.params, &onward.sent().meta);
        Some(onward)
    }
}

/// The reply of a call that is traced: its end ends the upstream's part.
pub(super) fn watched(watch: Arc<Watch>, method: Method, reply: Reply) -> Reply {
    match reply {
        Reply::One(outcome) => {
            watch.answered(outcome.word(&method));
            Reply::One(outcome)
        }
        Reply::Stream(events) => {
            let events = events.inspect(move |event| {
                if let Event::Done(outcome) = event {
                    watch.answered(outcome.word(&method));
                }
            });
            Reply::Stream(events.boxed())
        }
    }
}

/// In place of what the client sent.
fn carry(params: &mut Params, context: &[(&'static str, Bytes)]) {
    if params.meta.is_none() && memchr::memmem::find(params.raw.text(), b"\"_meta\"").is_some() {
        // `"_meta":null` is none; a second one beside it would be two.
        if let Ok(without) = Params::read(params.raw.without(&["_meta"])) {
            *params = without;
        }
    }
    let Some(at) = params.meta.as_ref().map(|meta| meta.whole.start) else {
        params.add_meta(context);
        // Whoever dresses the request looks for what is in `_meta`.
        if let Ok(read) = Params::read(params.raw.clone()) {
            *params = read;
        }
        return;
    };
    let text = params.raw.text().clone();
    let members = json::lax_members(&text, at).unwrap_or_default();
    for key in ["traceparent", "tracestate", "baggage"] {
        let ours = context.iter().find(|(name, _)| *name == key).map(|(_, value)| value);
        let came = members.iter().find(|member| member.is(key)).map(|member| member.value.clone());
        match (came, ours) {
            (Some(span), Some(value)) => params.raw.edit(span, value.clone()),
            // It speaks of another trace than ours.
            (Some(span), None) => params.raw.edit(span, Bytes::from_static(b"\"\"")),
            (None, Some(value)) => params.raw.insert_member(at, key, value),
            (None, None) => {}
        }
    }
}

/// In place of what the configuration forwards of the client's.
pub(super) fn carry_in_headers(headers: &mut Vec<(HeaderName, HeaderValue)>, sent: &Sent) {
    headers.retain(|(name, _)| !matches!(name.as_str(), "traceparent" | "tracestate" | "baggage"));
    headers.extend(sent.headers.iter().cloned());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Raw;

    #[test]
    fn the_context_stands_in_meta_once_and_all_else_as_it_came() {
        let context =
            [("traceparent", Bytes::from_static(b"\"tp\"")), ("baggage", Bytes::from_static(b"\"b\""))];
        let table = [
            (r#"{"name":"t"}"#, r#"{"_meta":{"traceparent":"tp","baggage":"b"},"name":"t"}"#),
            (r#"{"_meta":null,"name":"t"}"#, r#"{"_meta":{"traceparent":"tp","baggage":"b"},"name":"t"}"#),
            (r#"{"_meta":{}}"#, r#"{"_meta":{"traceparent":"tp","baggage":"b"}}"#),
            (
                r#"{"_meta":{"x":1.0, "traceparent":"old","tracestate":"s"},"a":[]}"#,
                r#"{"_meta":{"baggage":"b","x":1.0, "traceparent":"tp","tracestate":""},"a":[]}"#,
            ),
        ];
        for (came, want) in table {
            let mut params = Params::read(Raw::trusted(came)).unwrap();
            carry(&mut params, &context);
            assert_eq!(params.raw.to_bytes(), want, "{came}");
        }
    }
}
