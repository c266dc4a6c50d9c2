//! Lists in pages: our own cursors, sealed for one principal, profile and list, good on any pod.

use crate::mcp::{Caller, Kind, Listing, Reason};
use crate::sealing::{Keyring, Purpose};
use crate::wire::{Raw, json};
use bytes::{BufMut, BytesMut};

/// Where a page begins: after the item at `at - 1`, which was called `last`. The name finds the place again when the
/// list changed between two pages; the number serves where that item is gone.
#[derive(serde::Serialize, serde::Deserialize)]
struct Place {
    at: usize,
    last: String,
    /// The first page's scope, which is that of all (2026-07-28 caching).
    private: bool,
}

/// The result of a list request: the page that `cursor` names, at most `most` items.
pub fn page(
    keyring: &Keyring,
    caller: &Caller,
    listing: &Listing,
    cursor: Option<&str>,
    most: usize,
) -> Result<Raw, Reason> {
    let items = listing.items();
    let mut private = listing.private;
    let from = match cursor {
        None => 0,
        Some(cursor) => {
            let opened = keyring.open(Purpose::Cursor, &owner(caller, listing.kind), cursor);
            let place: Place =
                opened.ok().and_then(|p| serde_json::from_slice(&p).ok()).ok_or(Reason::BadCursor)?;
            // The list may have become less wide since; never wider than what the first page said.
            private |= place.private;
            match items.get(place.at.wrapping_sub(1)) {
                Some(item) if *item.name == *place.last => place.at,
                _ => items
                    .iter()
                    .position(|i| *i.name == *place.last)
                    .map_or(place.at.min(items.len()), |n| n + 1),
            }
        }
    };
    let upto = items.len().min(from + most);
    if cursor.is_none()
        && upto == items.len()
        && let Some(whole) = &listing.whole
    {
        return Ok(whole.clone());
    }
    let mut out =
        BytesMut::with_capacity(64 + items[from..upto].iter().map(|i| i.body.len() + 1).sum::<usize>());
    out.put_slice(b"{\"");
    out.put_slice(listing.kind.items_key().as_bytes());
    out.put_slice(b"\":[");
    for (n, item) in items[from..upto].iter().enumerate() {
        if n > 0 {
            out.put_u8(b',');
        }
        out.put_slice(&item.body.to_bytes());
    }
    out.put_u8(b']');
    if upto < items.len() {
        let last = items[upto - 1].name.to_string();
        let place = serde_json::to_vec(&Place { at: upto, last, private })
            .expect("a number and a string have a JSON form");
        let cursor = keyring.seal(Purpose::Cursor, &owner(caller, listing.kind), &place);
        out.put_slice(b",\"nextCursor\":");
        out.put_slice(json::quote(&cursor).as_bytes());
    }
    let scope = if private { "private" } else { "public" };
    let ttl = if listing.missing.is_empty() { listing.ttl_ms } else { 0 };
    out.put_slice(format!(",\"ttlMs\":{ttl},\"cacheScope\":\"{scope}\"").as_bytes());
    if !listing.missing.is_empty() {
        let ids: Vec<_> = listing.missing.iter().map(|id| id.as_str()).collect();
        let meta = serde_json::json!({"plasm/missing": ids});
        out.put_slice(b",\"_meta\":");
        out.put_slice(meta.to_string().as_bytes());
    }
    out.put_u8(b'}');
    Ok(Raw::trusted(out.freeze()))
}

fn owner(caller: &Caller, kind: Kind) -> Vec<u8> {
    format!("{}/{}/{}", kind.items_key(), caller.profile, caller.principal().identity()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::scripted::{caller, listing};

    fn read(page: Raw) -> serde_json::Value {
        page.read().expect("a page is JSON")
    }

    #[test]
    fn later_pages_are_never_wider_than_the_first_though_the_list_became_so() {
        let keyring = Keyring::random();
        let caller = caller();
        let names = [r#"{"name":"a"}"#, r#"{"name":"b"}"#, r#"{"name":"c"}"#];
        let whole = listing(Kind::Tool, &names);
        let mut partial = listing(Kind::Tool, &names[..2]);
        partial.private = true;
        let next = |listing: &Listing, cursor: Option<&str>| {
            let page = read(page(&keyring, &caller, listing, cursor, 1).expect("the cursor is ours"));
            let cursor = page["nextCursor"].as_str().map(str::to_owned);
            (page["cacheScope"].as_str().expect("every page has one").to_owned(), cursor)
        };
        let (scope, second) = next(&partial, None);
        assert_eq!(scope, "private");
        let (scope, third) = next(&whole, second.as_deref());
        assert_eq!(scope, "private");
        let (scope, over) = next(&whole, third.as_deref());
        assert_eq!((&*scope, over), ("private", None));
        let (scope, second) = next(&whole, None);
        assert_eq!(scope, "public");
        assert_eq!(next(&whole, second.as_deref()).0, "public");
        assert_eq!(next(&partial, second.as_deref()).0, "private");
    }
}
