//! What a catalog's author should look at, though the catalog can be used: what is declared and never sent, relations that
//! lead nowhere, hosts that are not named.

use url::Url;

use super::{
    Catalog, Embed, Entity, Input, Kind, Need, Relation,
    check::{Finding, inputs},
};
use crate::config::KeyPath;

pub(super) fn lint(catalog: &Catalog) -> Vec<Finding> {
    let mut found = Vec::new();
    unsent(catalog, &mut found);
    unreachable(catalog, &mut found);
    hosts(catalog, &mut found);
    unused(catalog, &mut found);
    found
}

/// Arguments that are taken and go nowhere; keys without which the row cannot be meant.
fn unsent(catalog: &Catalog, found: &mut Vec<Finding>) {
    for (id, operation) in catalog.operations.iter() {
        let sent = inputs(operation).unwrap_or_default();
        for (name, arg) in operation.args.iter() {
            if !sent.contains(&Input::Arg(name.to_owned())) {
                let need = if arg.need == Need::Scope { " though it is a scope" } else { "" };
                let path = KeyPath::of(&["operations", id, "args", name]);
                found.push((path, format!("it is declared and never sent{need}")));
            }
        }
        let keyed = matches!(operation.kind, Kind::Get | Kind::Update | Kind::Delete);
        for key in catalog.entity(&operation.entity).into_iter().filter(|_| keyed).flat_map(|one| &one.key) {
            if !sent.contains(&Input::Key(key.clone())) {
                found.push((KeyPath::of(&["operations", id]), format!("key.{key} is never sent")));
            }
        }
        if operation.kind == Kind::Search && !sent.contains(&Input::Text) {
            found.push((
                KeyPath::of(&["operations", id]),
                "the words of the search are never sent".to_owned(),
            ));
        }
    }
}

/// Relations that no row could follow.
fn unreachable(catalog: &Catalog, found: &mut Vec<Finding>) {
    for (name, entity) in catalog.entities.iter() {
        for (relation_name, relation) in entity.relations.iter() {
            if let Some(why) = leads_nowhere(catalog, name, entity, relation_name, relation) {
                found.push((KeyPath::of(&["entities", name, "relations", relation_name]), why));
            }
        }
    }
}

fn leads_nowhere(
    catalog: &Catalog,
    name: &str,
    entity: &Entity,
    relation_name: &str,
    relation: &Relation,
) -> Option<String> {
    let gets = |entity: &str| catalog.operation(entity, Kind::Get).is_some();
    if catalog.operation(name, Kind::Get).is_none() {
        // What stands in the row must come with the rows of some other operation.
        let needed: Vec<&str> = match (&relation.embed, &relation.by_ref) {
            (Some(_), _) => vec![relation_name],
            (_, Some(field)) => vec![field],
            _ => relation.bind.iter().map(|(_, field)| field).map(String::as_str).collect(),
        };
        let comes = |field: &&str| catalog.operations_of(name).any(|(_, one)| one.returns(field));
        let embedded = |_: &&str| is_embedded_somewhere(catalog, name);
        if let Some(field) = needed
            .iter()
            .find(|field| !entity.key.iter().any(|key| key == *field) && !comes(field) && !embedded(field))
        {
            return Some(format!(
                "unreachable: no operation returns {field} of {name}, and {name} has no get"
            ));
        }
    }
    let bare = relation.embed.is_none() && relation.query.is_none() && !gets(&relation.to);
    bare.then(|| format!("unreachable: {} has no get", relation.to))
}

fn is_embedded_somewhere(catalog: &Catalog, name: &str) -> bool {
    let embeds = |relation: &Relation| relation.to == name && matches!(relation.embed, Some(Embed { .. }));
    catalog.entities.iter().any(|(_, entity)| entity.relations.iter().any(|(_, relation)| embeds(relation)))
}

/// Requests that leave the source's own host without its saying so.
fn hosts(catalog: &Catalog, found: &mut Vec<Finding>) {
    let own = catalog.source.url().and_then(|(_, url)| Url::parse(url).ok());
    let own = own.as_ref().and_then(Url::host_str);
    for (id, operation) in catalog.operations.iter() {
        let Some(http) = &operation.http else { continue };
        let path = http.send.split_once(' ').map_or("", |(_, path)| path);
        let Ok(url) = Url::parse(&path.replace(['{', '}'], "")) else { continue };
        let Some(host) = url.host_str() else { continue };
        if own != Some(host) && !catalog.source.hosts().iter().any(|have| have == host) {
            let path = KeyPath::of(&["operations", id, "http", "send"]);
            found.push((path, format!("the host {host} is outside the allowlist; name it in source.hosts")));
        }
    }
}

/// Types that nothing has.
fn unused(catalog: &Catalog, found: &mut Vec<Finding>) {
    let fields =
        catalog.entities.iter().flat_map(|(_, one)| one.fields.iter().map(|(_, field)| &field.holds));
    let args = catalog.operations.iter().flat_map(|(_, one)| one.args.iter().map(|(_, arg)| &arg.holds));
    let held: Vec<&super::Holds> = fields.chain(args).collect();
    for name in catalog.types.keys() {
        if !held.iter().any(|holds| matches!(holds, super::Holds::Named(have) if have == name)) {
            found.push((KeyPath::of(&["types", name]), "nothing has this type".to_owned()));
        }
    }
}
