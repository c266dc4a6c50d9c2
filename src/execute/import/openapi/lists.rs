//! Lists: where the rows lie in an answer, and how a list is gone on with, where the document shows it plainly.

use serde_json::Value as Json;

use super::{
    super::{
        schema::{Schema, can_be_located},
        sheet::{Sheet, some},
    },
    document::{Answer, Called, In, Param},
};

/// Where rows lie, by many an API's custom.
const LISTS: [&str; 12] = [
    "items", "data", "results", "values", "value", "entries", "records", "rows", "list", "elements",
    "content", "hits",
];
/// What stands beside rows.
const SIZES: [&str; 10] = [
    "per_page",
    "perPage",
    "page_size",
    "pageSize",
    "pagesize",
    "limit",
    "size",
    "count",
    "max_results",
    "maxResults",
];
const OFFSETS: [&str; 5] = ["offset", "skip", "startAt", "start_at", "start_index"];
const CURSORS: [&str; 9] = [
    "cursor",
    "page_token",
    "pageToken",
    "after",
    "starting_after",
    "next_token",
    "nextToken",
    "continuation",
    "marker",
];
const NEXTS: [&str; 10] = [
    "next_cursor",
    "nextCursor",
    "next_page_token",
    "nextPageToken",
    "next_token",
    "nextToken",
    "cursor",
    "end_cursor",
    "endCursor",
    "next_marker",
];
const WRAPPERS: [&str; 6] = ["meta", "pagination", "paging", "page_info", "pageInfo", "response_metadata"];
const MORE: [&str; 5] = ["has_more", "hasMore", "has_next", "hasNext", "has_next_page"];
/// Rows of a page where the document does not say how many there may be.
const UNSAID: u64 = 50;
/// Most rows that a page is asked for.
const MOST: u64 = 100;

/// Rows of an answer.
#[derive(Clone, Debug)]
pub(super) struct Rows<'a> {
    pub at: String,
    pub of: Schema<'a>,
}

/// Where the rows of an answer lie. `about`: the last fixed part of the path.
pub(super) fn rows<'a>(answer: &Answer<'a>, about: &str) -> Option<Rows<'a>> {
    let Answer::Json { schema, .. } = answer else { return None };
    if let Some(of) = schema.rows() {
        return Some(Rows { at: "$.*".to_owned(), of });
    }
    let inside = |of: Schema<'a>, before: &str| {
        let lists: Vec<(String, Schema<'a>)> = of
            .properties()
            .into_iter()
            .filter(|(name, _)| can_be_located(name))
            .filter_map(|(name, raw)| Some((name, of.to(raw).rows()?)))
            .collect();
        let known = |name: &str| LISTS.contains(&name) || alike(name, about);
        let mut fits = lists.iter().filter(|(name, _)| known(name));
        let (name, of) = fits.next()?;
        Some(Rows { at: format!("{before}.{name}.*"), of: *of })
    };
    inside(*schema, "$").or_else(|| {
        let data = schema.property("data")?;
        inside(data, "$.data")
    })
}

/// `workflow_runs` lists what `/actions/runs` is about.
fn alike(name: &str, about: &str) -> bool {
    let plain = |text: &str| {
        text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
    };
    let (name, about) = (plain(name), plain(about));
    about.len() > 2 && name.ends_with(&about)
}

/// How a list comes in pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Paging {
    /// `pages` of the catalog.
    pub sheet: Option<Sheet>,
    /// The parameters that are sent by it.
    pub sent: Vec<String>,
    /// Whether its end is the end of the list.
    pub whole: bool,
    pub note: Option<&'static str>,
}

/// How the list is gone on with. `None` in it: the document does not show it plainly.
pub(super) fn paging(called: &Called<'_>) -> Paging {
    let find = |names: &[&str]| {
        names
            .iter()
            .find_map(|name| called.params.iter().find(|one| one.place == In::Query && one.name == *name))
    };
    let answer = if let Answer::Json { schema, .. } = &called.answer { Some(*schema) } else { None };
    let size = find(&SIZES);
    let rows = size.map(rows_of);
    let known = rows.flatten();
    let size_param = size.map(|size| Sheet::from(size.name));
    let paged =
        |style: &str, sent: Vec<Option<&Param<'_>>>, parts: Vec<(&'static str, Option<Sheet>)>| Paging {
            sheet: Some(some([("style", Some(style.into()))].into_iter().chain(parts))),
            sent: sent.into_iter().flatten().map(|param| param.name.to_owned()).collect(),
            whole: true,
            note: None,
        };
    let page = find(&["page", "page_number", "pageNumber"]).filter(|page| is_number(page));
    if called.links {
        let parts = vec![("size", known.map(Into::into)), ("size_param", size_param)];
        return paged("link", vec![page, size], parts);
    }
    if let Some(take) = answer.and_then(next_url) {
        let parts =
            vec![("take", Some(take.into())), ("size", known.map(Into::into)), ("size_param", size_param)];
        let offset = find(&OFFSETS).filter(|_| page.is_none());
        return paged("next_url", vec![page, offset, size], parts);
    }
    if let Some((send, take)) = find(&CURSORS).filter(|send| !send.required).zip(answer.and_then(next_cursor))
    {
        let parts = vec![
            ("send", Some(send.name.into())),
            ("take", Some(take.into())),
            ("size", known.map(Into::into)),
            ("size_param", size_param),
        ];
        return paged("cursor", vec![Some(send), size], parts);
    }
    let more = answer.and_then(|of| located(of, &MORE, "boolean"));
    let unsaid = |paging: Paging| match known.is_some() || more.is_some() {
        true => paging,
        // Where a source gives fewer rows than it is asked for, the first page would look like the last.
        false => Paging {
            whole: false,
            note: Some("how many rows a page has at most is not said: look at pages.size"),
            ..paging
        },
    };
    if let Some((page, size)) = page.zip(size) {
        let start = [page.raw, page.schema.at]
            .iter()
            .find_map(|at| at["default"].as_u64().or(at["minimum"].as_u64()));
        let parts = vec![
            ("page", Some(page.name.into())),
            ("start", start.filter(|start| *start == 0).map(Into::into)),
            ("size", Some(known.unwrap_or(UNSAID).into())),
            ("size_param", Some(size.name.into())),
            ("more", more.clone().map(Into::into)),
        ];
        return unsaid(paged("page", vec![Some(page), Some(size)], parts));
    }
    if let Some((offset, size)) = find(&OFFSETS).filter(|offset| is_number(offset)).zip(size) {
        let parts = vec![
            ("offset", Some(offset.name.into())),
            ("limit", Some(size.name.into())),
            ("size", Some(known.unwrap_or(UNSAID).into())),
            ("more", more.clone().map(Into::into)),
        ];
        return unsaid(paged("offset", vec![Some(offset), Some(size)], parts));
    }
    let looks = page.is_some() || size.is_some() || find(&OFFSETS).is_some() || find(&CURSORS).is_some();
    let note = looks
        .then_some("how its pages are gone on with is not plain: their parameters stand among its arguments");
    Paging { note, ..Paging::default() }
}

fn is_number(param: &Param<'_>) -> bool {
    matches!(param.schema.kind(), Some("integer" | "number"))
}

/// The most rows that a page may be asked for, as far as is said.
fn rows_of(size: &Param<'_>) -> Option<u64> {
    let said = |key: &str| {
        [size.raw, size.schema.at].iter().find_map(|at| at[key].as_u64()).filter(|rows| *rows > 0)
    };
    said("maximum").map(|most| most.min(MOST)).or_else(|| said("default").map(|rows| rows.min(1_000)))
}

fn next_url(of: Schema<'_>) -> Option<String> {
    let is_url = |of: Schema<'_>, name: &str| {
        of.property(name).is_some_and(|next| {
            next.kind() == Some("string") && matches!(next.at["format"].as_str(), Some("uri" | "url"))
        })
    };
    if let Some(name) =
        ["next", "next_url", "nextUrl", "next_page_url"].into_iter().find(|name| is_url(of, name))
    {
        return Some(format!("$.{name}"));
    }
    let links = of.property("links")?;
    is_url(links, "next").then(|| "$.links.next".to_owned())
}

fn next_cursor(of: Schema<'_>) -> Option<String> {
    located(of, &NEXTS, "string")
}

/// Where one of those names lies, at the top or in what wraps such things.
fn located(of: Schema<'_>, names: &[&str], kind: &str) -> Option<String> {
    let is = |of: Schema<'_>, name: &str| of.property(name).is_some_and(|one| one.kind() == Some(kind));
    if let Some(name) = names.iter().find(|name| is(of, name)) {
        return Some(format!("$.{name}"));
    }
    WRAPPERS.iter().find_map(|wrapper| {
        let inside = of.property(wrapper)?;
        names.iter().find(|name| is(inside, name)).map(|name| format!("$.{wrapper}.{name}"))
    })
}

/// The words of a search, if it is one: text without which it cannot be asked.
pub(super) fn words<'c, 'a>(called: &'c Called<'a>) -> Option<&'c Param<'a>> {
    let names = ["q", "query", "search", "term", "keyword", "keywords"];
    let about_searches = called.path.line.split('/').any(|part| part.eq_ignore_ascii_case("search"));
    called.params.iter().find(|one| {
        one.place == In::Query
            && names.contains(&one.name)
            && one.schema.kind() == Some("string")
            && (one.required || about_searches)
    })
}

/// The one object that an answer wraps: where the row lies, and what it is.
pub(super) fn row<'a>(of: Schema<'a>, about: &str) -> (String, Schema<'a>) {
    if let [(name, raw)] = of.properties().as_slice() {
        let inside = of.to(raw);
        let wraps = ["data", "result", "item"].contains(&name.as_str()) || name.eq_ignore_ascii_case(about);
        if wraps && can_be_located(name) && !inside.properties().is_empty() {
            return (format!("$.{name}"), inside);
        }
    }
    ("$".to_owned(), of)
}

/// Whether the document says of an answer what it is.
pub(super) fn is_said(raw: &Json) -> bool {
    raw.as_object().is_some_and(|schema| !schema.is_empty())
}
