//! One kind's lists as one: what clients see of each item, and whose it is. A table, never a split of names.

use super::naming::Naming;
use super::parts::{self, Parts};
use super::splice;
use super::uris::Uris;
use crate::mcp::{Item, Kind, Listing};
use crate::wire::json;
use std::collections::HashMap;
use std::sync::Arc;

/// The time to live of a list that a member does not have: it shortens no other's.
const ABSENT: u64 = u64::MAX;

/// The list of a member that has none of this kind.
pub(super) fn none(kind: Kind) -> Listing {
    let mut none = Listing::new(kind, Vec::new());
    none.private = false;
    none.ttl_ms = ABSENT;
    none
}

/// A merged list and the owners of its items.
pub(super) struct Names {
    pub(super) listing: Arc<Listing>,
    /// Of each item of the list: whose it is, and its own name.
    owners: Vec<(usize, Arc<str>)>,
    /// By the name that clients see.
    shown: HashMap<Arc<str>, usize>,
    /// By the name that a member gave: the only item that bears it; `None` where there are several.
    own: HashMap<Arc<str>, Option<usize>>,
    /// Whether a tool names the URI of an app, so that URIs decide what clients see of it.
    pub(super) has_apps: bool,
    /// Held so that no other list can come to stand at their addresses while this is cached by them.
    of: (Parts, Option<Arc<Uris>>),
}

impl Names {
    /// `uris` is needed for resources and templates; for tools it is where apps are.
    pub(super) fn of(kind: Kind, naming: &Naming, parts: Parts, uris: Option<Arc<Uris>>) -> Names {
        let mut names = Names {
            listing: Arc::new(Listing::new(kind, Vec::new())),
            owners: Vec::new(),
            shown: HashMap::new(),
            own: HashMap::new(),
            has_apps: false,
            of: (parts.clone(), uris.clone()),
        };
        let mut items = Vec::new();
        let mut changed = false;
        for (member, item) in parts
            .iter()
            .enumerate()
            .flat_map(|(m, part)| part.iter().flat_map(move |l| l.items().iter().map(move |i| (m, i))))
        {
            if kind == Kind::Tool && !naming.admits(member, &item.name) {
                changed = true;
                continue;
            }
            let shown = match (kind, &uris) {
                (Kind::Tool, _) => naming.tool(member, &item.name),
                (Kind::Prompt, _) => naming.name(member, &item.name),
                (Kind::Resource, Some(uris)) => uris.shown(member, &item.name),
                (Kind::Template, Some(uris)) => uris.shown_template(member, &item.name),
                (Kind::Resource | Kind::Template, None) => item.name.clone(),
            };
            // A name given twice names its first bearer, in the member's list as in ours.
            if names.shown.contains_key(&shown) {
                changed = true;
                continue;
            }
            let mut seen = item.clone();
            if shown != item.name {
                seen.body.edit(item.name_span.clone(), json::quote(&shown));
                seen.name = shown.clone();
                changed = true;
            }
            if kind == Kind::Tool {
                let apps = splice::app_uris(&item.body);
                names.has_apps |= !apps.is_empty();
                for (span, uri) in apps {
                    let of_app = uris.as_ref().map(|uris| uris.shown(member, &uri));
                    if let Some(of_app) = of_app.filter(|of_app| **of_app != *uri) {
                        seen.body.edit(span, json::quote(&of_app));
                        changed = true;
                    }
                }
            }
            let at = items.len();
            names.shown.insert(shown, at);
            // A name in another member's form is that member's, though it does not list it now.
            if naming.suspect(&item.name).is_none_or(|of| of == member) {
                names.own.entry(item.name.clone()).and_modify(|only| *only = None).or_insert(Some(at));
            }
            names.owners.push((member, item.name.clone()));
            items.push(seen);
        }
        names.listing = match &parts[..] {
            [Some(only)] if !changed => only.clone(),
            _ => Arc::new(with_freshness(Listing::new(kind, items), &parts)),
        };
        names
    }

    /// Whose an item is that a client names, and its own name: by the name in the list, else by the member's own where
    /// that is one item's alone (apps call tools by the names that their server knows).
    pub(super) fn find(&self, name: &str) -> Option<(usize, Arc<str>)> {
        let at = self.shown.get(name).copied().or_else(|| self.own.get(name).copied().flatten())?;
        Some(self.owners[at].clone())
    }

    /// What the lists that it was made of keep alive, in bytes.
    pub(super) fn weight(&self) -> usize {
        parts::weight(&self.of.0)
    }

    /// The list without the items of members that did not answer now.
    pub(super) fn without(&self, missing: &[usize]) -> Listing {
        let present: Vec<Item> = (self.listing.items().iter().zip(&self.owners))
            .filter(|(_, (member, _))| !missing.contains(member))
            .map(|(item, _)| item.clone())
            .collect();
        Listing::new(self.listing.kind, present)
    }
}

/// The smallest time to live and the narrowest scope of the parts.
fn with_freshness(mut listing: Listing, parts: &Parts) -> Listing {
    let present = || parts.iter().flatten();
    listing.missing = present().flat_map(|part| part.missing.iter().cloned()).collect();
    let partial = !listing.missing.is_empty();
    listing.ttl_ms = if partial {
        0
    } else {
        present().map(|part| part.ttl_ms).min().filter(|ttl| *ttl < ABSENT).unwrap_or(0)
    };
    listing.private = partial || present().any(|part| part.private);
    listing
}
