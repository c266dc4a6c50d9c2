//! The JSON-RPC envelope: one text in, one message out, with params and results as they came.
//!
//! Clients' envelopes are strict, for two readers of one message must not see two messages: keys given twice and
//! case variants of the keys we read are refused. Upstreams' envelopes are read by their first spelling.

use super::json::{self, JsonError};
use super::outline::{Outline, Rule, Unclear};
use super::params::Params;
use super::results::Gist;
use super::{Id, Method, Raw, Span, code};
use bytes::{BufMut, Bytes, BytesMut};

/// One JSON-RPC message.
#[derive(Debug, Clone)]
pub enum Message {
    Request(Request),
    Notification(Notification),
    Response(Response),
}

#[derive(Debug, Clone)]
pub struct Request {
    pub id: Id,
    pub method: Method,
    pub params: Params,
}

#[derive(Debug, Clone)]
pub struct Notification {
    pub method: Method,
    pub params: Params,
}

/// An answer. Without an id it belongs to no request: the peer could not read ours.
#[derive(Debug, Clone)]
pub struct Response {
    pub id: Option<Id>,
    pub outcome: Result<Raw, Raw>,
}

/// Why a text is no message, with the id to answer under where one could be read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{why}")]
pub struct Refused {
    pub id: Option<Id>,
    pub code: i32,
    pub why: String,
}

/// What a client's body holds: one message, or a batch of them (2025-03-26 only).
#[derive(Debug)]
pub enum Body {
    One(Message),
    Batch(Vec<Result<Message, Refused>>),
}

/// The most members of a client's batch: each has an answer of its own, so a short text could ask for a great many.
const LARGEST_BATCH: usize = 100;

pub(super) const KEYS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// Reads a client's body strictly. Errors: `-32700` for what is not JSON, `-32600` for what is no message and for a batch
/// of none or of more than 100.
pub fn read_body(text: Bytes, depth: u16) -> Result<Body, Refused> {
    let mut outline = Outline::under(Rule::Strict);
    let span = outline.check(&text, depth).map_err(|e| refuse(None, e))?;
    if text[span.start as usize] != b'[' {
        return message(&text, span, Rule::Strict, &outline).map(Body::One);
    }
    let members = json::elements(&text, span.start).unwrap_or_default();
    if members.is_empty() {
        return Err(invalid(None, "an empty batch"));
    }
    if members.len() > LARGEST_BATCH {
        return Err(invalid(None, format!("a batch of more than {LARGEST_BATCH} messages")));
    }
    let read = |span| message(&text, span, Rule::Strict, &Outline::none());
    Ok(Body::Batch(members.into_iter().map(read).collect()))
}

/// Reads one message of a client strictly; a batch is refused.
pub fn read(text: Bytes, depth: u16) -> Result<Message, Refused> {
    let mut outline = Outline::under(Rule::Strict);
    let span = outline.check(&text, depth).map_err(|e| refuse(None, e))?;
    message(&text, span, Rule::Strict, &outline)
}

/// Reads one message of an upstream. Errors as [`read`]: the upstream answered garbage.
pub fn read_upstream(text: Bytes, depth: u16) -> Result<Message, Refused> {
    let mut outline = Outline::under(Rule::Lax);
    let span = outline.check(&text, depth).map_err(|e| refuse(None, e))?;
    message(&text, span, Rule::Lax, &outline)
}

fn message(text: &Bytes, span: Span, rule: Rule, outline: &Outline) -> Result<Message, Refused> {
    let id_in = |span: &Option<Span>| span.as_ref().and_then(|span| Id::read(text, span));
    let read = rule.read(text, span.start, 0, &KEYS, outline);
    let [version, id_span, method, params, result, error] = read.map_err(|why| match why {
        Unclear::Json(error) => refuse(None, error),
        Unclear::Variant(_) => {
            let id = Rule::Lax.look(text, span.start, 0, &KEYS).ok().and_then(|[_, id, ..]| id_in(&id));
            invalid(id, why.to_string())
        }
    })?;
    let id = id_in(&id_span);
    if rule == Rule::Strict && !version.is_some_and(|span| json::says(text, &span, "2.0")) {
        return Err(invalid(id, "\"jsonrpc\" must be \"2.0\""));
    }
    let Some(method) = method else {
        return response(text, result, error, id_span.as_ref(), id, outline);
    };
    let known = Method::of_token(&text[method.start as usize..method.end as usize]);
    let Some(method) = known.or_else(|| json::string(text, &method).map(|name| Method::parse(&name))) else {
        return Err(invalid(id, "\"method\" must be a string"));
    };
    if result.is_some() || error.is_some() {
        return Err(invalid(id, "a request has no \"result\" and no \"error\""));
    }
    let params = match params {
        Some(span) if text[span.start as usize] == b'{' => {
            Params::at(text, &span, rule, outline).map_err(|why| invalid(id.clone(), why))?
        }
        Some(_) => return Err(invalid(id, "\"params\" must be an object")),
        None => Params::none(),
    };
    match (id_span, id) {
        (None, _) => Ok(Message::Notification(Notification { method, params })),
        (Some(_), Some(id)) => Ok(Message::Request(Request { id, method, params })),
        (Some(_), None) => Err(invalid(None, "\"id\" must be a string or an integer")),
    }
}

fn response(
    text: &Bytes,
    result: Option<Span>,
    error: Option<Span>,
    id_span: Option<&Span>,
    id: Option<Id>,
    outline: &Outline,
) -> Result<Message, Refused> {
    let null = id_span.is_none_or(|span| &text[span.start as usize..span.end as usize] == b"null");
    if id.is_none() && !null {
        return Err(invalid(None, "\"id\" must be a string or an integer"));
    }
    let slice = |span: &Span| text.slice(span.start as usize..span.end as usize);
    let outcome = match (result, error) {
        (Some(result), None) => Ok(Raw::result(slice(&result), Gist::noted(text, result.start, outline))),
        (None, Some(error)) => Err(Raw::trusted(slice(&error))),
        (None, None) => return Err(invalid(id, "neither \"method\" nor \"result\" nor \"error\"")),
        (Some(_), Some(_)) => return Err(invalid(id, "both \"result\" and \"error\"")),
    };
    let object = match &outcome {
        Ok(part) | Err(part) => part.text().first() == Some(&b'{'),
    };
    if !object {
        return Err(invalid(id, "\"result\" and \"error\" must be objects"));
    }
    Ok(Message::Response(Response { id, outcome }))
}

fn refuse(id: Option<Id>, error: JsonError) -> Refused {
    let code = match error {
        JsonError::Duplicate(_) | JsonError::NotObject(_) => code::INVALID_REQUEST,
        _ => code::PARSE,
    };
    Refused { id, code, why: error.to_string() }
}

fn invalid(id: Option<Id>, why: impl Into<String>) -> Refused {
    Refused { id, code: code::INVALID_REQUEST, why: why.into() }
}

// Each is written to the byte: what is neither shared nor has room to spare needs no second allocation.

/// Writes a request; `id` and `params` go out as they are.
pub fn write_request(id: &Id, method: &Method, params: &Raw) -> Bytes {
    const HEAD: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":";
    let method = method.token();
    let fixed = HEAD.len() + METHOD.len() + PARAMS.len() + 1;
    let mut out = Vec::with_capacity(fixed + id.token().len() + method.len() + params.len());
    out.extend_from_slice(HEAD);
    out.extend_from_slice(id.token());
    out.extend_from_slice(METHOD);
    out.extend_from_slice(method.as_bytes());
    out.extend_from_slice(PARAMS);
    params.write(&mut out);
    out.push(b'}');
    out.into()
}

const METHOD: &[u8] = b",\"method\":";
const PARAMS: &[u8] = b",\"params\":";

/// Writes a notification.
pub fn write_notification(method: &Method, params: &Raw) -> Bytes {
    const HEAD: &[u8] = b"{\"jsonrpc\":\"2.0\"";
    let method = method.token();
    let fixed = HEAD.len() + METHOD.len() + PARAMS.len() + 1;
    let mut out = Vec::with_capacity(fixed + method.len() + params.len());
    out.extend_from_slice(HEAD);
    out.extend_from_slice(METHOD);
    out.extend_from_slice(method.as_bytes());
    out.extend_from_slice(PARAMS);
    params.write(&mut out);
    out.push(b'}');
    out.into()
}

/// Writes an answer; without an id only an error can be written (`"id"` is left out, 2026-07-28 *Error Responses*).
pub fn write_response(id: Option<&Id>, outcome: Result<&Raw, &Raw>) -> Bytes {
    const HEAD: &[u8] = b"{\"jsonrpc\":\"2.0\"";
    const ID: &[u8] = b",\"id\":";
    let (key, value): (&[u8], _) = match outcome {
        Ok(result) => (b",\"result\":", result),
        Err(error) => (b",\"error\":", error),
    };
    let id_member = id.map_or(0, |id| ID.len() + id.token().len());
    let mut out = Vec::with_capacity(HEAD.len() + id_member + key.len() + value.len() + 1);
    out.extend_from_slice(HEAD);
    if let Some(id) = id {
        out.extend_from_slice(ID);
        out.extend_from_slice(id.token());
    }
    out.extend_from_slice(key);
    value.write(&mut out);
    out.push(b'}');
    debug_assert_eq!(out.len(), out.capacity());
    out.into()
}

/// Writes messages that are written already as one batch (2025-03-26 only).
pub fn write_batch(messages: &[Bytes]) -> Bytes {
    let size = messages.iter().map(|message| message.len() + 1).sum::<usize>();
    let mut out = BytesMut::with_capacity(2 + size);
    out.put_u8(b'[');
    for (n, message) in messages.iter().enumerate() {
        if n > 0 {
            out.put_u8(b',');
        }
        out.put_slice(message);
    }
    out.put_u8(b']');
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(text: &str) -> i32 {
        read(Bytes::copy_from_slice(text.as_bytes()), 128).map(|_| 0).unwrap_or_else(|r| r.code)
    }

    #[test]
    fn each_kind_of_message_is_told_apart_and_bad_ones_get_their_code() {
        let table = [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, 0),
            (r#" {"method":"x","params":{},"id":"a","jsonrpc":"2.0"} "#, 0),
            (r#"{"jsonrpc":"2.0","method":"notifications/x"}"#, 0),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, 0),
            (r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}"#, 0),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, code::INVALID_REQUEST),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, code::INVALID_REQUEST),
            (r#"{"id":1,"method":"ping"}"#, code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#, code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"i\u0064":2,"method":"ping"}"#, code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"Method":"x","method":"ping"}"#, code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1}"#, code::INVALID_REQUEST),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"p","params":{"name":"a","name":"b"}}"#,
                code::INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"p","params":{"Name":"a","name":"b"}}"#,
                code::INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"p","params":{"_meta":{"x":1,"x":2}}}"#,
                code::INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"p","params":{"arguments":{"x":1,"x":2}}}"#,
                code::INVALID_REQUEST,
            ),
            (r#"{"jsonrpc":"2.0","id":1,"method":"p","params":{"arguments":{"x":1,"X":2}}}"#, 0),
            ("[]", code::INVALID_REQUEST),
            ("7", code::INVALID_REQUEST),
            ("{", code::PARSE),
            ("", code::PARSE),
        ];
        for (text, want) in table {
            assert_eq!(code_of(text), want, "{text}");
        }
        assert_eq!(read(Bytes::from_static(b"{\"a\":\"\xff\"}"), 128).unwrap_err().code, code::PARSE);
    }

    #[test]
    fn a_batch_has_an_end() {
        let of = |count: usize| read_body(format!("[{}1]", "1,".repeat(count - 1)).into(), 128);
        assert!(matches!(of(LARGEST_BATCH), Ok(Body::Batch(all)) if all.len() == LARGEST_BATCH));
        assert_eq!(of(LARGEST_BATCH + 1).unwrap_err().code, code::INVALID_REQUEST);
    }

    #[test]
    fn what_is_written_reads_back_byte_for_byte() {
        let text = r#"{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"a","arguments":{"z":1.0}}}"#;
        let Ok(Message::Request(r)) = read(Bytes::from_static(text.as_bytes()), 128) else { panic!() };
        assert_eq!(write_request(&r.id, &r.method, &r.params.raw), text);
        let other = write_notification(&Method::parse("a\"b"), &Raw::trusted("{}"));
        assert_eq!(other, r#"{"jsonrpc":"2.0","method":"a\"b","params":{}}"#);
        let mut result = Raw::trusted(r#"{"a": 1}"#);
        result.insert_member(0, "b", b"2");
        let answer = write_response(Some(&r.id), Ok(&result));
        assert_eq!(answer, r#"{"jsonrpc":"2.0","id":9007199254740993,"result":{"b":2,"a": 1}}"#);
        assert_eq!(write_response(None, Err(&result)), r#"{"jsonrpc":"2.0","error":{"b":2,"a": 1}}"#);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(text: Vec<u8>) {
            let _ = read_body(Bytes::from(text), 128);
        }

        #[test]
        fn a_message_reads_the_same_by_its_outline_and_without(
            text in crate::wire::outline::tests::message(),
            rule in proptest::prop_oneof![
                proptest::strategy::Just(Rule::Strict),
                proptest::strategy::Just(Rule::Lax)
            ],
        ) {
            let text = Bytes::from(text);
            let mut outline = Outline::under(rule);
            let span = outline.check(&text, 9).unwrap();
            // What is noted of a result is the same read now or later.
            let shown = |read: Result<Message, Refused>| match read {
                Ok(Message::Response(Response { id, outcome: Ok(result) })) => {
                    format!("{id:?} {:?} {:?}", result.text(), Gist::of(&result))
                }
                other => format!("{other:?}"),
            };
            let noted = shown(message(&text, span.clone(), rule, &outline));
            proptest::prop_assert_eq!(noted, shown(message(&text, span, rule, &Outline::none())));
        }
    }
}
