//! What of the catalogs a caller is shown: what they may call.

use std::{collections::BTreeSet, sync::Arc};

use super::Inner;
use crate::{
    execute::catalog::{Catalog, Catalogs, Loaded, Operation},
    mcp::Caller,
};

impl Inner {
    /// The catalogs that the profile admits, in which what the caller may not call is as if it were switched off. One that is all
    /// theirs is the very same.
    pub(super) fn shown(&self, caller: &Caller, catalogs: &Catalogs) -> Catalogs {
        let mut shown = Catalogs::default();
        for (api, loaded) in catalogs.iter().filter(|(api, _)| self.admits(api)) {
            let hidden: BTreeSet<&str> = (loaded.catalog.operations.iter())
                .filter(|(id, one)| one.enabled && !(self.settings.admits.0)(&caller.access, api, id))
                .map(|(id, _)| id)
                .collect();
            shown.add(match hidden.is_empty() {
                true => loaded.clone(),
                false => Loaded { catalog: Arc::new(without(&loaded.catalog, &hidden)), ..loaded.clone() },
            });
        }
        shown
    }
}

fn without(catalog: &Catalog, hidden: &BTreeSet<&str>) -> Catalog {
    let mut catalog = catalog.clone();
    let operations = catalog.operations.iter().map(|(id, one)| {
        let enabled = one.enabled && !hidden.contains(id);
        (id.to_owned(), Operation { enabled, ..one.clone() })
    });
    catalog.operations = operations.collect();
    catalog
}

/// Whether there is nothing that can be done with an entity, though its catalog says what.
pub(super) fn is_idle(catalog: &Catalog, entity: &str) -> bool {
    let mut all = catalog.operations.iter().filter(|(_, one)| one.entity == entity).peekable();
    all.peek().is_some() && all.all(|(_, one)| !one.enabled)
}

/// Whether a name (`api::Entity`, `api::Entity.member`) is no method, or one that is switched on.
pub(super) fn has(catalogs: &Catalogs, name: &str) -> bool {
    let Some((api, rest)) = name.split_once("::") else { return true };
    let Some(catalog) = catalogs.get(api).map(|loaded| &*loaded.catalog) else { return false };
    let Some((entity, member)) = rest.split_once('.') else { return true };
    let relation = catalog.entity(entity).is_some_and(|entity| entity.relations.get(member).is_some());
    relation || catalog.methods(entity).any(|(method, _, _)| method == member)
}
