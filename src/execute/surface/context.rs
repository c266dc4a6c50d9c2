//! `plasm_context`: opens a session over entities, and teaches them.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::{
    Inner,
    answer::{self, Answer},
    forbidden,
    shown::{self, is_idle},
};
use crate::{
    execute::{
        catalog::{Catalogs, Loaded},
        fault::Fault,
        logical::{LogicalError, Open, Opened},
        symbols::{Scope, Seed},
        teaching,
    },
    mcp::Caller,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    intent: String,
    seeds: Vec<Seed>,
    #[serde(default)]
    logical_session_ref: Option<String>,
    #[serde(default)]
    fresh: bool,
}

impl Inner {
    pub(super) async fn context(&self, caller: &Caller, ask: Ask) -> Result<Answer, Fault> {
        let served = self.logical.catalogs();
        let shown = self.shown(caller, &served);
        let idle = |catalogs: &Catalogs, seed: &Seed| {
            catalogs.get(&seed.api).is_none_or(|loaded| is_idle(&loaded.catalog, &seed.entity))
        };
        let mut not_admitted: Vec<String> = (ask.seeds.iter())
            .filter(|seed| !idle(&served, seed) && idle(&shown, seed))
            .map(|seed| seed.api.clone())
            .collect();
        not_admitted.sort();
        not_admitted.dedup();
        forbidden(not_admitted)?;
        let owner = self.owner(caller);
        let open = Open {
            intent: &ask.intent,
            seeds: &ask.seeds,
            given: ask.logical_session_ref.as_deref(),
            fresh: ask.fresh,
        };
        let Opened { held, mut table, mut added, known, before, continuity } =
            self.logical.open(&owner, open).await?;
        let mut shown = self.shown(caller, &held.catalogs);
        // What is no longer admitted was taught before, and is refused where it is used.
        for (_, one) in held.catalogs.iter() {
            shown.add(one.clone());
        }
        if shown.iter().any(|(api, one)| !held.catalogs.get(api).is_some_and(|all| is_same(all, one))) {
            // They are taught what they may call.
            let scope = Scope::new(held.scope.ledger.clone(), &shown).map_err(LogicalError::from)?;
            table = teaching::table(&scope, &before).map_err(LogicalError::from)?;
            added.retain(|one| shown::has(&shown, &one.name));
        }
        let mut text = format!("{}\n", held.handle);
        if continuity.discard_cached_plasm_symbols {
            text += "This is a new session: forget every symbol (e…, r…, m…) of earlier replies.\n";
        }
        if added.is_empty() {
            let known: Vec<String> =
                known.iter().map(|one| format!("{} = {}", one.symbol, one.name)).collect();
            text += &format!("Nothing new; known already: {}.\n", known.join(", "));
        } else {
            text += "expression\tmeaning\n";
            text += &table;
        }
        let structured = json!({
            "logical_session_ref": held.handle.as_str(),
            "revision": held.revision,
            "new_symbol_space": continuity.new_symbol_space,
            "symbols_added": added,
        });
        let meta = json!({
            "logical_session_ref": held.handle.as_str(),
            "intent": &*held.intent,
            "tenant_scope": &*owner.tenant,
            "revision": held.revision,
            "catalogs": held.digests,
            "continuity": continuity,
        });
        Ok(answer::said(&text, structured, Some(meta)))
    }
}

fn is_same(one: &Loaded, other: &Loaded) -> bool {
    Arc::ptr_eq(&one.catalog, &other.catalog)
}
