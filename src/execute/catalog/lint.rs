//! What a catalog's author should look at, though the catalog can be used: what is declared and never sent, relations and
//! entities that nothing leads to, hosts that are not named.

use url::Url;

use std::collections::BTreeSet;

use super::{
    Catalog, Embed, Entity, Graphql, Input, Kind, Need, Operation, Pages, Relation,
    check::{Finding, inputs},
};
use crate::config::KeyPath;

pub(super) fn lint(catalog: &Catalog) -> Vec<Finding> {
    let mut found = Vec::new();
    unsent(catalog, &mut found);
    twice(catalog, &mut found);
    variables(catalog, &mut found);
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

/// What its pages send by themselves.
fn paged(operation: &Operation) -> Vec<&str> {
    let (one, other) = match &operation.pages {
        Pages::None => (None, None),
        Pages::Page { page, size_param, .. } => (Some(page), size_param.as_ref()),
        Pages::Offset { offset, limit, .. } => (Some(offset), Some(limit)),
        Pages::Cursor { send, size_param, .. } => (Some(send), size_param.as_ref()),
        Pages::Link { size_param, .. } | Pages::NextUrl { size_param, .. } => (None, size_param.as_ref()),
        Pages::Relay { after, first, .. } => (Some(after), first.as_ref()),
    };
    one.into_iter().chain(other).map(String::as_str).collect()
}

/// What both the mapping and the pages send: the pages win.
fn twice(catalog: &Catalog, found: &mut Vec<Finding>) {
    for (id, operation) in catalog.operations.iter() {
        let http = operation.http.iter().flat_map(|to| to.query.keys());
        let graphql = operation.graphql.iter().flat_map(|to| to.variables.keys());
        let mcp = operation.mcp.iter().flat_map(|to| to.arguments.keys());
        let paged = paged(operation);
        for name in http.chain(graphql).chain(mcp).filter(|name| paged.contains(name)) {
            let path = KeyPath::of(&["operations", id, "pages"]);
            found.push((path, format!("{name} is sent by the pages, and by the mapping too")));
        }
    }
}

/// Variables that a document declares and nothing gives, and those that are given and not declared.
fn variables(catalog: &Catalog, found: &mut Vec<Finding>) {
    for (id, operation) in catalog.operations.iter() {
        let Some(Graphql { document, variables, .. }) = &operation.graphql else { continue };
        let given: BTreeSet<&str> = variables.keys().chain(paged(operation)).collect();
        let declared = declared(document);
        for (name, needed) in declared.iter().filter(|(name, _)| !given.contains(name)) {
            if *needed {
                let path = KeyPath::of(&["operations", id, "graphql", "variables"]);
                found.push((path, format!("${name} is declared in the document and never given")));
            }
        }
        for name in given.iter().filter(|name| !declared.iter().any(|(have, _)| have == *name)) {
            let path = KeyPath::of(&["operations", id, "graphql", "document"]);
            found.push((path, format!("${name} is given and not declared in the document")));
        }
    }
}

/// The variables that the head of a GraphQL document declares, and whether each must be given: it is not null and has no
/// default (GraphQL October 2021, 2.10).
fn declared(document: &str) -> Vec<(&str, bool)> {
    let Some((head, _)) = document.split_once('{').filter(|(head, _)| head.contains('(')) else {
        return Vec::new();
    };
    // Defaults may be objects: the head ends at the parenthesis that closes its first.
    let (mut depth, mut end) = (0_usize, document.len());
    for (at, c) in document.char_indices().skip_while(|(at, _)| *at < head.find('(').unwrap_or_default()) {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => {
                end = at;
                break;
            }
            ')' => depth -= 1,
            _ => {}
        }
    }
    let mut declared = Vec::new();
    for part in document[..end].split('$').skip(1) {
        let len = part.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(part.len());
        let (name, of) = part.split_at(len);
        let kind = of.split(['=', '@', ',']).next().unwrap_or_default().trim_end();
        declared.push((name, kind.ends_with('!') && !of.contains('=')));
    }
    declared
}

/// Relations that no row could follow, and entities that nothing leads to.
fn unreachable(catalog: &Catalog, found: &mut Vec<Finding>) {
    for (name, entity) in catalog.entities.iter() {
        let led_to = |other: &Entity| other.relations.iter().any(|(_, relation)| relation.to == name);
        let reached = entity.key.is_empty()
            || catalog
                .operations
                .iter()
                .any(|(_, one)| one.entity == name && (one.kind.is_read() || one.kind == Kind::Create))
            || catalog.entities.iter().any(|(_, other)| led_to(other));
        if !reached {
            let message =
                format!("unreachable: nothing reads or makes a {name}, and no relation leads to one");
            found.push((KeyPath::of(&["entities", name]), message));
        }
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
    if let Some(query) =
        relation.query.as_ref().filter(|id| catalog.operations.get(id).is_some_and(|one| !one.enabled))
    {
        return Some(format!("unreachable: {query} is not enabled"));
    }
    if catalog.operation(name, Kind::Get).is_none() {
        // What stands in the row must come with the rows of some other operation.
        let needed: Vec<&str> = match (&relation.embed, &relation.by_ref) {
            (Some(_), _) => vec![relation_name],
            (_, Some(field)) => vec![field],
            _ => relation.bind.iter().map(|(_, field)| field).map(String::as_str).collect(),
        };
        // A disabled operation is one all the same: somebody is to confirm it.
        let comes =
            |field: &&str| catalog.operations.iter().any(|(_, one)| one.entity == name && one.returns(field));
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
