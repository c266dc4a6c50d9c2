//! Profiles over scripted backends: the field cases of federation, as far as one gateway without a wire shows them.

mod changes;
mod lists;
mod routes;
mod switch;

use super::{Composite, Member, Profile};
use crate::config::Globs;
use crate::mcp::scripted::{self, Scripted};
use crate::mcp::{Age, Backend, Fault, Kind, Listing, Outcome, Reason, Reply};
use crate::wire::{Method, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A member that offers nothing.
pub(super) fn member(id: &str) -> Member {
    of(Arc::new(Scripted::new(id).0))
}

pub(super) fn of(backend: Arc<dyn Backend>) -> Member {
    Member {
        backend,
        rename: BTreeMap::new(),
        tools: Globs::default(),
        own_names: false,
        uri_prefixes: Vec::new(),
        limit: Duration::from_millis(100),
    }
}

pub(super) fn profile(members: Vec<Member>) -> Profile {
    Profile { name: "default".into(), members, tools: Globs::default(), instructions: None }
}

/// A list of things that have nothing but a name.
pub(super) fn listing(kind: Kind, names: &[&str]) -> Arc<Listing> {
    let bodies: Vec<String> =
        names.iter().map(|name| format!("{{\"{}\":{}}}", kind.name_key(), json::quote(name))).collect();
    Arc::new(scripted::listing(kind, &bodies.iter().map(String::as_str).collect::<Vec<_>>()))
}

fn composite(members: &[&Arc<Scripted>]) -> Composite {
    Composite::new(profile(members.iter().map(|m| of((*m).clone())).collect()))
}

fn scripted(id: &str, kind: Kind, items: &[&str]) -> Arc<Scripted> {
    Arc::new(Scripted::new(id).0.listing(kind, items))
}

async fn list(of: &Composite, kind: Kind) -> Arc<Listing> {
    of.list(scripted::caller(), kind, Age::Fresh).await.expect("the list can be given")
}

async fn names(of: &Composite, kind: Kind) -> Vec<String> {
    list(of, kind).await.items().iter().map(|item| item.name.to_string()).collect()
}

/// The items as a client gets them.
async fn bodies(of: &Composite, kind: Kind) -> Vec<String> {
    list(of, kind)
        .await
        .items()
        .iter()
        .map(|i| String::from_utf8(i.body.to_bytes().to_vec()).unwrap())
        .collect()
}

async fn outcome(of: &Composite, method: Method, params: &str) -> Outcome {
    of.call(scripted::call(method, params)).await.outcome().await
}

/// The result of a call that succeeds.
async fn result(of: &Composite, method: Method, params: &str) -> String {
    match outcome(of, method, params).await {
        Outcome::Result(raw) => String::from_utf8(raw.to_bytes().to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Why a call fails.
async fn reason(of: &Composite, method: Method, params: &str) -> Reason {
    match outcome(of, method, params).await {
        Outcome::Error(Fault::Ours(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

fn answer(text: &'static str) -> impl Fn(&crate::mcp::Call) -> Reply + Send + Sync {
    move |_| Reply::result(crate::wire::Raw::trusted(text))
}
