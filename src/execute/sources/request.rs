//! From a mapping to a request: what stands in a catalog filled with what is given of one call. No I/O.
//! What is given comes from an agent: it cannot climb out of the path, name another host or add a header.

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use serde_json::{Map, Value as Json};
use url::Url;

use super::{Ask, SourceError, SourceErrorKind};
use crate::{
    config::Ordered,
    execute::catalog::{Http, Input},
};

/// A request without its login.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Option<Json>,
}

/// What cannot be sent, said to whoever wrote the program.
pub(super) fn unfit(message: impl Into<String>) -> SourceError {
    SourceError { kind: SourceErrorKind::Status, message: message.into(), uncertain: false }
}

/// The request of an HTTP mapping. `base`: where its path begins; `common`: headers of every request.
pub(super) fn http(
    ask: &Ask,
    to: &Http,
    base: &str,
    common: &Ordered<String>,
) -> Result<Request, SourceError> {
    let (verb, line) = to.send.split_once(' ').ok_or_else(|| unfit("the catalog names no verb"))?;
    let method = verb.parse().map_err(|_| unfit("the catalog names no verb"))?;
    let mut url = address(ask, base, line)?;
    for (name, value) in to.query.iter() {
        let Some(value) = filled(ask, value).filter(|value| !value.is_null()) else { continue };
        // What stands in the request line is for where nothing is given.
        without(&mut url, name);
        match value {
            Json::Array(items) => items.iter().for_each(|item| add(&mut url, name, item)),
            value => add(&mut url, name, &value),
        }
    }
    let mut headers = common_headers(common)?;
    for (name, value) in to.headers.iter() {
        if let Some(value) = filled(ask, value).filter(|value| !value.is_null()) {
            put(&mut headers, name, &text(&value))?;
        }
    }
    let body = to.body.as_ref().map(|body| filled(ask, body).unwrap_or_else(|| Json::Object(Map::new())));
    Ok(Request { method, url, headers, body })
}

/// Headers that every request of a source bears.
pub(super) fn common_headers(common: &Ordered<String>) -> Result<HeaderMap, SourceError> {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static("plasm-mcp"));
    common.iter().try_for_each(|(name, value)| put(&mut headers, name, value))?;
    Ok(headers)
}

pub(super) fn put(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), SourceError> {
    let bad = || unfit(format!("the header {name} cannot bear what is given for it"));
    let key: HeaderName = name.parse().map_err(|_| bad())?;
    // How a message is framed, and to whom it goes, is not the catalog's to say.
    if [header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION].contains(&key) {
        return Err(bad());
    }
    headers.insert(key, HeaderValue::from_str(value).map_err(|_| bad())?);
    Ok(())
}

/// Adds a parameter.
pub(super) fn add(url: &mut Url, name: &str, value: &Json) {
    url.query_pairs_mut().append_pair(name, &text(value));
}

/// Sets a parameter, in place of one that is there.
pub(super) fn set(url: &mut Url, name: &str, value: &str) {
    without(url, name);
    url.query_pairs_mut().append_pair(name, value);
}

/// Takes a parameter away.
pub(super) fn without(url: &mut Url, name: &str) {
    if !url.query_pairs().any(|(have, _)| have == name) {
        return;
    }
    let kept: Vec<(String, String)> =
        url.query_pairs().filter(|(have, _)| have != name).map(|(a, b)| (a.into(), b.into())).collect();
    url.set_query(None);
    if !kept.is_empty() {
        url.query_pairs_mut().extend_pairs(kept);
    }
}

/// Text as it is written in a path, a parameter or a header.
pub(super) fn text(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The variables of a document, or the arguments of a tool.
pub(super) fn object(ask: &Ask, given: &Ordered<Json>) -> Map<String, Json> {
    given.iter().filter_map(|(name, value)| Some((name.to_owned(), filled(ask, value)?))).collect()
}

/// A part of a mapping with what is given; `None`: nothing of it is. What holds inputs and is given none is left out.
fn filled(ask: &Ask, value: &Json) -> Option<Json> {
    match value {
        Json::String(name) => given(ask, &Input::parse(name)?).cloned().or_else(|| match name.as_str() {
            "text" => ask.text.clone().map(Json::String),
            _ => None,
        }),
        Json::Array(items) => {
            let held: Vec<Json> = items.iter().filter_map(|item| filled(ask, item)).collect();
            (!held.is_empty() || items.is_empty()).then_some(Json::Array(held))
        }
        Json::Object(map) if map.len() == 1 && map.contains_key("const") => map.get("const").cloned(),
        Json::Object(map) => {
            let held: Map<String, Json> =
                map.iter().filter_map(|(name, value)| Some((name.clone(), filled(ask, value)?))).collect();
            (!held.is_empty() || map.is_empty()).then_some(Json::Object(held))
        }
        other => Some(other.clone()),
    }
}

fn given<'a>(ask: &'a Ask, input: &Input) -> Option<&'a Json> {
    match input {
        Input::Arg(name) => ask.args.get(name),
        Input::Key(name) => ask.key.get(name),
        Input::Text => None,
    }
}

/// The URL of a request line: what is given stands in it as parts of segments, whatever it holds.
fn address(ask: &Ask, base: &str, line: &str) -> Result<Url, SourceError> {
    let mut written = match line.starts_with('/') {
        true => base.trim_end_matches('/').to_owned(),
        false => String::new(),
    };
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('{') {
        written.push_str(before);
        let (name, after) =
            after.split_once('}').ok_or_else(|| unfit("the catalog's path has an open brace"))?;
        let has_host = written.split_once("://").is_some_and(|(_, after)| after.contains('/'));
        if !has_host {
            return Err(unfit("the catalog's address takes its host from what is given"));
        }
        let value = Input::parse(name)
            .and_then(|input| match input {
                Input::Text => ask.text.clone(),
                other => given(ask, &other).filter(|value| !value.is_null()).map(text),
            })
            .filter(|value| !value.is_empty())
            .ok_or_else(|| {
                unfit(format!("{name} is needed for the path of this request, and is not given"))
            })?;
        written.push_str(&segment(name, &value)?);
        rest = after;
    }
    written.push_str(rest);
    let path = written.split(['?', '#']).next().unwrap_or_default();
    if path.split('/').any(is_dots) {
        return Err(unfit("what is given would lead out of the path of this request"));
    }
    Url::parse(&written).map_err(|_| unfit("the catalog's address is no URL"))
}

/// A value as a part of one segment.
fn segment(name: &str, value: &str) -> Result<String, SourceError> {
    // Some servers decode before they route: a value that climbs there must not climb.
    if value.split(['/', '\\']).any(is_dots) || value.chars().any(char::is_control) {
        return Err(unfit(format!("{name} cannot stand in a path: {value:?}")));
    }
    let mut written = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            true => written.push(char::from(byte)),
            false => written.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(written)
}

/// Whether a segment means the one above or itself, however it is written.
fn is_dots(segment: &str) -> bool {
    let plain = segment.to_ascii_lowercase().replace("%2e", ".");
    plain == "." || plain == ".."
}
