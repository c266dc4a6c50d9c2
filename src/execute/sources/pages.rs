//! Where a page begins and where the next one does, in each style. What lies between two pages is a [`PageRef`]: text that
//! holds no secret. A source that leads in a circle is found out with one remembered page (Brent). No I/O.

use http::{HeaderMap, header};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use url::Url;

use super::{
    PageRef, SourceError, SourceErrorKind,
    answer::{Document, failure},
};
use crate::execute::{
    canonical,
    catalog::{Locator, Pages},
};

/// Most pages of one reading: beyond it a source makes up pages.
const MOST: u64 = 100_000;

/// Where a page begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum At {
    /// A page's number, or the rows to skip.
    Number(u64),
    /// A cursor, as the source wrote it.
    Cursor(Json),
    Url(String),
}

/// A page of a reading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    at: At,
    /// Rows a page: the same in all of one reading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// How many pages were before it.
    n: u64,
    /// Digest of a page before: where it comes again, the source leads in a circle.
    mark: String,
}

/// What a page's request bears.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Sent {
    pub values: Vec<(String, Json)>,
    /// In place of the request's own URL.
    pub url: Option<String>,
}

/// The answer, as far as the next page is concerned.
pub(super) struct Answered<'a> {
    pub document: &'a Document,
    pub headers: Option<&'a HeaderMap>,
    /// What was asked for.
    pub url: Option<&'a Url>,
    pub rows: usize,
}

impl Place {
    /// Errors: it is none of this style's.
    pub fn read(page: &PageRef) -> Result<Place, SourceError> {
        serde_json::from_str(&page.0)
            .map_err(|_| failure(SourceErrorKind::Shape, "this is no page of this source", false))
    }

    fn written(&self) -> PageRef {
        PageRef(serde_json::to_string(self).expect("text and numbers are JSON"))
    }
}

/// Rows of each page, where that is ours to say.
pub(super) fn size(pages: &Pages, place: Option<&Place>, wanted: Option<u64>) -> Option<u64> {
    let own = pages.size();
    let settable = match pages {
        Pages::Page { size_param, .. }
        | Pages::Cursor { size_param, .. }
        | Pages::Link { size_param, .. }
        | Pages::NextUrl { size_param, .. } => size_param.is_some(),
        Pages::Relay { first, .. } => first.is_some(),
        Pages::Offset { .. } => true,
        Pages::None => false,
    };
    match place.and_then(|place| place.size) {
        Some(size) => Some(size),
        None if settable => match (own, wanted) {
            (Some(own), Some(wanted)) => Some(own.min(wanted.max(1))),
            (own, wanted) => own.or(wanted),
        },
        None => own,
    }
}

/// What the request of a page bears.
pub(super) fn sent(pages: &Pages, place: Option<&Place>, size: Option<u64>) -> Result<Sent, SourceError> {
    let mut sent = Sent::default();
    let mut bear = |name: Option<&String>, value: Option<Json>| {
        sent.values.extend(name.cloned().zip(value));
    };
    let size = size.map(Json::from);
    let wrong = || Err(failure(SourceErrorKind::Shape, "this is no page of this source", false));
    match (pages, place.map(|place| &place.at)) {
        (Pages::None, None) => {}
        (Pages::Page { page, start, size_param, .. }, None | Some(At::Number(_))) => {
            let number = match place.map(|place| &place.at) {
                Some(At::Number(number)) => *number,
                _ => *start,
            };
            bear(Some(page), Some(number.into()));
            bear(size_param.as_ref(), size);
        }
        (Pages::Offset { offset, limit, .. }, None | Some(At::Number(_))) => {
            let skip = match place.map(|place| &place.at) {
                Some(At::Number(number)) => *number,
                _ => 0,
            };
            bear(Some(offset), Some(skip.into()));
            bear(Some(limit), size);
        }
        (Pages::Cursor { send, size_param, .. }, at @ (None | Some(At::Cursor(_)))) => {
            let cursor =
                at.and_then(|at| if let At::Cursor(cursor) = at { Some(cursor.clone()) } else { None });
            bear(Some(send), cursor);
            bear(size_param.as_ref(), size);
        }
        (Pages::Relay { after, first, .. }, at @ (None | Some(At::Cursor(_)))) => {
            let cursor =
                at.and_then(|at| if let At::Cursor(cursor) = at { Some(cursor.clone()) } else { None });
            bear(Some(after), cursor);
            bear(first.as_ref(), size);
        }
        (Pages::Link { size_param, .. } | Pages::NextUrl { size_param, .. }, None) => {
            bear(size_param.as_ref(), size);
        }
        (Pages::Link { .. } | Pages::NextUrl { .. }, Some(At::Url(url))) => sent.url = Some(url.clone()),
        _ => return wrong(),
    }
    Ok(sent)
}

/// Where the next page begins; `None`: there is none. `bare` takes from a URL what must not rest in a store, or says that
/// it leads where this source may not.
pub(super) fn next(
    pages: &Pages,
    place: Option<&Place>,
    size: Option<u64>,
    answered: &Answered<'_>,
    bare: impl Fn(Url) -> Result<Url, SourceError>,
) -> Result<Option<PageRef>, SourceError> {
    let Answered { document, headers, url, rows } = answered;
    let rows = *rows as u64;
    let number = |start: u64| match place.map(|place| &place.at) {
        Some(At::Number(number)) => *number,
        _ => start,
    };
    let leads = |text: &str| {
        let resolved = url.map_or_else(|| Url::parse(text), |url| url.join(text));
        let wrong = || failure(SourceErrorKind::Shape, "the address of the next page is no URL", false);
        bare(resolved.map_err(|_| wrong())?).map(|url| At::Url(url.into()))
    };
    let goes_on = |more: &Option<Locator>| more.as_ref().map(|at| is_some(&document.value(at)));
    // Without a word of the source a page that is not full is the last; with one, an empty page is.
    let full = |more: &Option<Locator>| match goes_on(more) {
        Some(more) => more && rows > 0,
        None => rows > 0 && size.is_none_or(|size| rows >= size),
    };
    let at = match pages {
        Pages::None => None,
        Pages::Page { start, more, .. } => full(more).then(|| At::Number(number(*start).saturating_add(1))),
        Pages::Offset { more, .. } => full(more).then(|| At::Number(number(0).saturating_add(rows))),
        Pages::Cursor { take, more, .. } => {
            let cursor = document.value(take);
            (goes_on(more) != Some(false) && is_cursor(&cursor)).then_some(At::Cursor(cursor))
        }
        Pages::Relay { info, .. } => {
            let info = document.value(info);
            let cursor = info.get("endCursor").cloned().unwrap_or_default();
            match (info.get("hasNextPage"), is_cursor(&cursor)) {
                (Some(Json::Bool(true)), true) => Some(At::Cursor(cursor)),
                (Some(Json::Bool(false)), _) => None,
                _ => {
                    let message =
                        "the answer does not say whether there is another page, where the catalog says";
                    return Err(failure(SourceErrorKind::Shape, message, false));
                }
            }
        }
        Pages::NextUrl { take, .. } => match document.value(take) {
            Json::String(text) if !text.is_empty() => Some(leads(&text)?),
            _ => None,
        },
        Pages::Link { .. } => headers.and_then(next_link).map(|text| leads(&text)).transpose()?,
    };
    let Some(at) = at else { return Ok(None) };
    let (n, mark) = place.map_or((0, String::new()), |place| (place.n, place.mark.clone()));
    let here = place.map(|place| digest(&place.at)).unwrap_or_default();
    let to = digest(&at);
    if n >= MOST || to == here || to == mark {
        // The same page again: whoever reads on sees that it leads nowhere.
        if let Some(place) = place {
            return Ok(Some(place.written()));
        }
    }
    let n = n + 1;
    let mark = if n.is_power_of_two() { here } else { mark };
    Ok(Some(Place { at, size, n, mark }.written()))
}

fn digest(at: &At) -> String {
    canonical::sha256(&json!(at))[..16].to_owned()
}

/// What an answer says of more: true, a number, a URL, anything but nothing.
fn is_some(value: &Json) -> bool {
    !matches!(value, Json::Null | Json::Bool(false))
        && value.as_str() != Some("")
        && value.as_f64() != Some(0.0)
}

fn is_cursor(value: &Json) -> bool {
    match value {
        Json::String(text) => !text.is_empty(),
        Json::Number(_) => true,
        _ => false,
    }
}

/// The target of `rel="next"` (RFC 8288 3).
fn next_link(headers: &HeaderMap) -> Option<String> {
    headers.get_all(header::LINK).iter().filter_map(|value| value.to_str().ok()).find_map(|value| {
        let mut rest = value;
        while let Some((_, after)) = rest.split_once('<') {
            let (target, after) = after.split_once('>')?;
            // Parameters go to the next comma outside quotes.
            let mut quoted = false;
            let end = after.find(|c| {
                quoted ^= c == '"';
                c == ',' && !quoted
            });
            let (params, more) = after.split_at(end.unwrap_or(after.len()));
            if params.split(';').any(is_next) {
                return Some(target.trim().to_owned());
            }
            rest = more;
        }
        None
    })
}

fn is_next(param: &str) -> bool {
    param.split_once('=').is_some_and(|(name, value)| {
        name.trim().eq_ignore_ascii_case("rel")
            && value.trim().trim_matches('"').split(' ').any(|word| word.eq_ignore_ascii_case("next"))
    })
}
