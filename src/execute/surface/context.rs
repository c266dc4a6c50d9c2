//! `plasm_context`: opens a session over entities, and teaches them.

use serde::Deserialize;
use serde_json::json;

use super::{
    Inner,
    answer::{self, Answer},
    forbidden,
};
use crate::{
    execute::{
        fault::Fault,
        logical::{Open, Opened},
        symbols::Seed,
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
        let mut not_admitted: Vec<String> = (ask.seeds.iter().map(|seed| &seed.api))
            .filter(|api| served.get(api).is_some() && !self.admits(api))
            .cloned()
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
        let Opened { held, table, added, known, continuity } = self.logical.open(&owner, open).await?;
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
