//! W3C trace context and baggage as they travel (Trace Context level 1, Baggage): read from headers or `_meta`, written to both.

use super::Sent;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::{SpanContext, TraceContextExt};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use std::borrow::Cow;
use std::sync::Arc;

pub const TRACEPARENT: &str = "traceparent";
pub const TRACESTATE: &str = "tracestate";
pub const BAGGAGE: &str = "baggage";

/// Longest `tracestate` and `baggage` that are carried on, in bytes; longer ones are let go whole (Trace Context 3.3.1.5,
/// Baggage 3.3.2 ask for 512 and 8192 at least).
const LONGEST: usize = 8192;

/// The trace context that came with a message, if a valid one did.
#[derive(Clone, Debug, Default)]
pub struct Carried(Option<Arc<Came>>);

#[derive(Debug)]
struct Came {
    span: SpanContext,
    baggage: Option<Arc<str>>,
}

impl Carried {
    /// From what is under each of the three keys.
    pub fn of<'a>(get: impl Fn(&str) -> Option<Cow<'a, str>>) -> Carried {
        let bounded = |key| get(key).filter(|text| text.len() <= LONGEST);
        let Some(parent) = bounded(TRACEPARENT) else { return Carried::default() };
        let read = Read { parent, state: bounded(TRACESTATE) };
        let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &read);
        let span = context.span().span_context().clone();
        if !span.is_valid() {
            return Carried::default();
        }
        // It goes into a header again.
        let visible = |text: &Cow<'_, str>| text.bytes().all(|b| matches!(b, b' '..=b'~'));
        let baggage = bounded(BAGGAGE).filter(visible).map(|text| Arc::from(&*text));
        Carried(Some(Arc::new(Came { span, baggage })))
    }

    pub fn of_headers(map: &HeaderMap) -> Carried {
        if !map.contains_key(TRACEPARENT) {
            return Carried::default();
        }
        Carried::of(|key| {
            let mut values = map.get_all(key).iter().filter_map(|value| value.to_str().ok());
            let first = values.next()?;
            match (key, values.next()) {
                // Two parents are none; lists may come in several headers.
                (TRACEPARENT, Some(_)) => None,
                (_, None) => Some(first.into()),
                (_, Some(second)) => {
                    let all = [first, second].into_iter().chain(values);
                    Some(all.collect::<Vec<_>>().join(",").into())
                }
            }
        })
    }

    pub(super) fn span(&self) -> Option<&SpanContext> {
        self.0.as_ref().map(|came| &came.span)
    }

    pub(super) fn baggage(&self) -> Option<&Arc<str>> {
        self.0.as_ref()?.baggage.as_ref()
    }

    pub fn trace_id(&self) -> Option<String> {
        self.span().map(|span| span.trace_id().to_string())
    }
}

struct Read<'a> {
    parent: Cow<'a, str>,
    state: Option<Cow<'a, str>>,
}

impl Extractor for Read<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            TRACEPARENT => Some(&self.parent),
            TRACESTATE => self.state.as_deref(),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec![TRACEPARENT, TRACESTATE]
    }
}

impl Sent {
    /// The context of a span of ours, and the baggage that came.
    pub(super) fn of(context: &Context, baggage: Option<&str>) -> Sent {
        let mut sent = Sent::default();
        TraceContextPropagator::new().inject_context(context, &mut sent);
        if let Some(baggage) = baggage {
            sent.set(BAGGAGE, baggage.to_owned());
        }
        sent
    }
}

impl Injector for Sent {
    fn set(&mut self, key: &str, value: String) {
        let known = [TRACEPARENT, TRACESTATE, BAGGAGE].into_iter().find(|known| *known == key);
        let (Some(key), Ok(header)) = (known, HeaderValue::from_str(&value)) else { return };
        if value.is_empty() {
            return;
        }
        self.headers.push((HeaderName::from_static(key), header));
        let text = serde_json::to_string(&value).expect("text has a JSON form");
        self.meta.push((key, Bytes::from(text)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";

    #[test]
    fn a_context_is_read_and_written_as_it_came_and_a_broken_one_is_none() {
        let come = |parent: &'static str, state: &'static str, baggage: &'static str| {
            Carried::of(|key| match key {
                TRACEPARENT => Some(parent.into()),
                TRACESTATE => Some(state.into()),
                _ => Some(baggage.into()),
            })
        };
        let carried = come(PARENT, "a=1,b=2", "user=ann;p=1");
        assert_eq!(carried.trace_id().unwrap(), "0af7651916cd43dd8448eb211c80319c");
        let context = Context::new().with_remote_span_context(carried.span().unwrap().clone());
        let sent = Sent::of(&context, carried.baggage().map(|baggage| &**baggage));
        let of = |key: &str| sent.meta.iter().find(|(name, _)| *name == key).map(|(_, value)| value.clone());
        assert_eq!(of(TRACEPARENT).unwrap(), format!("\"{PARENT}\""));
        assert_eq!(of(TRACESTATE).unwrap(), "\"a=1,b=2\"");
        assert_eq!(of(BAGGAGE).unwrap(), "\"user=ann;p=1\"");
        assert_eq!(sent.headers.len(), 3);
        for broken in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "ff-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
        ] {
            assert!(come(broken, "", "").span().is_none(), "{broken}");
        }
        assert!(come(PARENT, "", "a\r\nb").baggage().is_none());
    }

    #[test]
    fn of_headers_two_parents_are_none_and_lists_are_joined() {
        let mut map = HeaderMap::new();
        map.append(TRACEPARENT, HeaderValue::from_static(PARENT));
        map.append(BAGGAGE, HeaderValue::from_static("a=1"));
        map.append(BAGGAGE, HeaderValue::from_static("b=2"));
        assert_eq!(&**Carried::of_headers(&map).baggage().unwrap(), "a=1,b=2");
        map.append(TRACEPARENT, HeaderValue::from_static(PARENT));
        assert!(Carried::of_headers(&map).span().is_none());
    }
}
