//! What makes a catalog unusable: names that collide or mean something else, references to what is not there, mappings
//! that cannot be carried out.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use url::Url;

use super::{
    Auth, Base, Catalog, Entity, Field, Holds, Input, Kind, Operation, Pages, Relation, Root, Source,
    placeholders,
};
use crate::{config::KeyPath, execute::names};

/// A key and what is wrong there.
pub(super) type Finding = (KeyPath, String);

/// Finds everything, not only the first.
pub(super) fn check(catalog: &Catalog) -> Vec<Finding> {
    let mut checking = Checking { catalog, found: Vec::new() };
    checking.head();
    checking.types();
    for (name, entity) in catalog.entities.iter() {
        checking.entity(name, entity);
    }
    for (id, operation) in catalog.operations.iter() {
        checking.operation(id, operation);
    }
    checking.found
}

struct Checking<'a> {
    catalog: &'a Catalog,
    found: Vec<Finding>,
}

impl Checking<'_> {
    fn fault(&mut self, path: &KeyPath, message: impl Into<String>) {
        self.found.push((path.clone(), message.into()));
    }

    fn head(&mut self) {
        let id = &self.catalog.id;
        let mut bytes = id.bytes();
        let good = bytes.next().is_some_and(|first| first.is_ascii_lowercase())
            && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
            && id.len() <= 40;
        if !good {
            let message = "expected an id of at most 40 characters: a letter of a-z, then a-z, 0-9, _ and -";
            self.fault(&KeyPath::of(&["catalog"]), message);
        }
        let source = KeyPath::of(&["source"]);
        if let Source::Mcp { url, upstream, .. } = &self.catalog.source
            && url.is_some() == upstream.is_some()
        {
            self.fault(&source, "expected exactly one of url and upstream");
        }
        if let Some((key, text)) = self.catalog.source.url()
            && !is_address(text)
        {
            self.fault(&source.then(key), "expected an http:// or https:// address without credentials");
        }
        let auth = self.catalog.source.auth();
        if let Auth::ClientCredentials { token_url, .. } = auth
            && !is_address(token_url)
        {
            let message = "expected an http:// or https:// address without credentials";
            self.fault(&source.then("auth").then("token_url"), message);
        }
        if let Some(secret) = auth.secret()
            && !is_secret_name(secret)
        {
            let key = if matches!(auth, Auth::Oauth2 { .. }) { "connection" } else { "secret" };
            let message =
                "expected the name of a secret (at most 64 of a-z, A-Z, 0-9, _, ., - and /), never its value";
            self.fault(&source.then("auth").then(key), message);
        }
    }

    fn types(&mut self) {
        for (name, domain) in self.catalog.types.iter() {
            let path = KeyPath::of(&["types", name]);
            if Base::of_name(name).is_some() {
                self.fault(&path, format!("{name} is a base; a type needs a name of its own"));
            }
            self.domain(domain, &path);
        }
    }

    fn domain(&mut self, domain: &super::Domain, path: &KeyPath) {
        match (domain.base, domain.values.is_empty()) {
            (Base::Enum, true) => self.fault(path, "an enum needs values"),
            (Base::Enum, false) | (_, true) => {}
            (_, false) => self.fault(path, "only an enum has values"),
        }
        if domain.min.zip(domain.max).is_some_and(|(min, max)| min > max) {
            self.fault(path, "min is above max");
        }
    }

    fn holds(&mut self, holds: &Holds, path: &KeyPath) {
        match holds {
            Holds::Inline(domain) => self.domain(domain, path),
            Holds::Ref(entity) if self.catalog.entity(entity).is_none() => {
                let near = names::did_you_mean(entity, self.catalog.entities.keys());
                self.fault(path, format!("there is no entity {entity:?}{near}"));
            }
            Holds::Named(name) if self.catalog.types.get(name).is_none() && Base::of_name(name).is_none() => {
                let known = self.catalog.types.keys().chain(Base::ALL.iter().map(|(name, _)| *name));
                let near = names::did_you_mean(name, known);
                self.fault(path, format!("there is no type {name:?}{near}"));
            }
            _ => {}
        }
    }

    /// A name that a program may write.
    fn name(&mut self, name: &str, path: &KeyPath) {
        if !names::is_name(name) {
            self.fault(path, "expected a name: a letter or _, then letters, digits and _ (at most 64)");
        } else if names::is_symbol(name) {
            self.fault(path, "a letter of e, r, m, p and a number is a symbol; choose another name");
        } else if names::is_stage(name) || names::is_word(name) {
            self.fault(path, format!("{name} is a word of the language; choose another name, and give the wire's in at or in the mapping"));
        }
    }

    fn entity(&mut self, name: &str, entity: &Entity) {
        let path = KeyPath::of(&["entities", name]);
        self.name(name, &path);
        for key in &entity.key {
            if entity.fields.get(key).is_none() {
                self.fault(&path.then("key"), format!("{key} is not among the fields"));
            }
        }
        for (name, field) in entity.fields.iter() {
            let path = path.then("fields").then(name);
            self.name(name, &path);
            let Field { holds, at, .. } = field;
            self.holds(holds, &path);
            if at.as_ref().is_some_and(|at| at.root != Root::Document) {
                self.fault(&path.then("at"), "a field lies in its row: begin with $");
            }
        }
        for (name, relation) in entity.relations.iter() {
            let path = path.then("relations").then(name);
            self.name(name, &path);
            self.relation(entity, relation, &path);
        }
        self.homographs(name, entity, &path);
    }

    /// One word, one meaning: after a dot stands a relation or a method, in brackets a field.
    fn homographs(&mut self, name: &str, entity: &Entity, path: &KeyPath) {
        let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
        let fields = entity.fields.keys().map(|name| (name, "field"));
        let relations = entity.relations.keys().map(|name| (name, "relation"));
        // Disabled ones too: whoever confirms one should not have to rename it.
        let methods =
            self.catalog.operations.iter().filter(|(_, one)| one.entity == name && !one.kind.is_read());
        let methods = methods.map(|(id, one)| (one.name.as_deref().unwrap_or(id), "method"));
        let mut twice = Vec::new();
        for (name, kind) in fields.chain(relations).chain(methods) {
            match seen.insert(name, kind) {
                Some(other) if other == kind => twice.push(format!("two {kind}s have the name {name}")),
                Some(other) => twice.push(format!("{name} is a {other} and a {kind}; rename one of them")),
                None => {}
            }
        }
        twice.into_iter().for_each(|message| self.fault(path, message));
    }

    fn relation(&mut self, from: &Entity, relation: &Relation, path: &KeyPath) {
        let Some(to) = self.catalog.entity(&relation.to) else {
            let near = names::did_you_mean(&relation.to, self.catalog.entities.keys());
            return self.fault(&path.then("to"), format!("there is no entity {:?}{near}", relation.to));
        };
        match (&relation.embed, &relation.query, &relation.by_ref) {
            (Some(embed), None, None) => {
                for key in &to.key {
                    if embed.key.get(key).is_none() {
                        self.fault(&path.then("embed"), format!("key has no {key} of {}", relation.to));
                    }
                }
                if relation.many != embed.rows.is_many() {
                    let message =
                        if relation.many { "many needs rows with *" } else { "rows with * are many" };
                    self.fault(&path.then("embed"), message);
                }
            }
            (None, Some(query), None) => self.bound_query(from, relation, query, path),
            (None, None, Some(field)) => match from.fields.get(field).map(|field| &field.holds) {
                Some(Holds::Ref(entity)) if *entity == relation.to => {
                    if relation.many {
                        self.fault(path, "a ref leads to one");
                    }
                }
                _ => {
                    self.fault(&path.then("ref"), format!("{field} is no field that holds a {}", relation.to))
                }
            },
            _ => self.fault(path, "expected exactly one of embed, query and ref"),
        }
        if relation.query.is_none() && !relation.bind.is_empty() {
            self.fault(&path.then("bind"), "bind belongs to query");
        }
    }

    fn bound_query(&mut self, from: &Entity, relation: &Relation, query: &str, path: &KeyPath) {
        let Some(operation) = self.catalog.operations.get(query) else {
            let near = names::did_you_mean(query, self.catalog.operations.keys());
            return self.fault(&path.then("query"), format!("there is no operation {query:?}{near}"));
        };
        if operation.kind != Kind::Query || operation.entity != relation.to {
            self.fault(&path.then("query"), format!("{query} is no query for {}", relation.to));
        }
        for (arg, field) in relation.bind.iter() {
            if operation.args.get(arg).is_none() {
                self.fault(&path.then("bind"), format!("{query} has no argument {arg}"));
            }
            if from.fields.get(field).is_none() {
                self.fault(&path.then("bind"), format!("there is no field {field}"));
            }
        }
        for (arg, _) in operation.args.iter().filter(|(_, arg)| arg.need != super::Need::Optional) {
            if relation.bind.get(arg).is_none() {
                self.fault(&path.then("bind"), format!("{query} needs {arg}"));
            }
        }
    }

    fn operation(&mut self, id: &str, operation: &Operation) {
        let path = KeyPath::of(&["operations", id]);
        if operation.kind.is_read() {
            if operation.name.is_some() {
                self.fault(&path.then("name"), "only methods (create, update, delete, action) have names");
            }
            if operation.effect.is_some() {
                self.fault(&path.then("effect"), format!("a {} has no effect", kind(operation.kind)));
            }
        } else {
            self.name(operation.name.as_deref().unwrap_or(id), &path);
            if operation.effect.is_none() {
                self.fault(&path, "missing effect: say what it does, {class: read | write | destructive}");
            }
        }
        if operation.text.is_some() != (operation.kind == Kind::Search) {
            self.fault(&path, "text names the words of a search, and each search needs it");
        }
        let Some(entity) = self.catalog.entity(&operation.entity) else {
            let near = names::did_you_mean(&operation.entity, self.catalog.entities.keys());
            return self
                .fault(&path.then("entity"), format!("there is no entity {:?}{near}", operation.entity));
        };
        for (name, arg) in operation.args.iter() {
            let path = path.then("args").then(name);
            self.name(name, &path);
            self.holds(&arg.holds, &path);
        }
        for field in operation.returns.iter().flat_map(|returns| returns.fields.iter().flatten()) {
            if entity.fields.get(field).is_none() && entity.relations.get(field).is_none() {
                let near = names::did_you_mean(field, entity.fields.keys());
                let message = format!("{} has no field or relation {field:?}{near}", operation.entity);
                self.fault(&path.then("returns"), message);
            }
        }
        self.mapping(operation, entity, &path);
    }

    fn mapping(&mut self, operation: &Operation, entity: &Entity, path: &KeyPath) {
        let source = self.catalog.source.kind();
        let given = [operation.http.is_some(), operation.graphql.is_some(), operation.mcp.is_some()];
        let right = match self.catalog.source {
            Source::Http { .. } => [true, false, false],
            Source::Graphql { .. } => [false, true, false],
            Source::Mcp { .. } => [false, false, true],
        };
        if given != right {
            return self
                .fault(path, format!("expected a mapping {source}, as the source is one, and no other"));
        }
        match inputs(operation) {
            Ok(inputs) => inputs.iter().for_each(|input| self.input(input, operation, entity, path)),
            Err(what) => {
                let message = format!(
                    "expected args.NAME, key.NAME, text, a number, true, false or {{const: TEXT}}, found {what:?}"
                );
                self.fault(&path.then(source), message);
            }
        }
        if let Some(http) = &operation.http
            && !is_request_line(&http.send)
        {
            let message = "expected a verb and a path, such as GET /projects/{key.id}";
            self.fault(&path.then("http").then("send"), message);
        }
        self.reads_only(operation, path);
        let many = matches!(operation.kind, Kind::Query | Kind::Search);
        let (row, rows) = match (&operation.http, &operation.graphql, &operation.mcp) {
            (Some(to), _, _) => (&to.row, &to.rows),
            (_, Some(to), _) => (&to.row, &to.rows),
            (_, _, Some(to)) => (&to.row, &to.rows),
            _ => return,
        };
        match (many, row, rows) {
            (true, None, Some(_)) | (false, _, None) if operation.kind != Kind::Get || row.is_some() => {}
            (true, ..) => self.fault(path, "it returns rows: say where they lie with rows, and not with row"),
            (false, ..) => {
                self.fault(path, "it returns one row: say where it lies with row, and not with rows")
            }
        }
        if !many && operation.pages != Pages::None {
            self.fault(&path.then("pages"), "one row has no pages");
        }
        if operation.pages.size() == Some(0) {
            self.fault(&path.then("pages").then("size"), "a page has at least one row");
        }
    }

    /// A read has no effect that a plan could show: what it sends must not change anything.
    fn reads_only(&mut self, operation: &Operation, path: &KeyPath) {
        if !operation.kind.is_read() {
            return;
        }
        let kind = kind(operation.kind);
        if let Some(http) = &operation.http
            && let Some((verb @ ("PUT" | "PATCH" | "DELETE"), _)) = http.send.split_once(' ')
        {
            let message =
                format!("a {kind} sends no {verb}: missing effect, make it an update, a delete or an action");
            self.fault(&path.then("http").then("send"), message);
        }
        let document = operation.graphql.as_ref().map(|to| to.document.trim_start());
        if document.is_some_and(|document| document.starts_with("mutation")) {
            let message = format!(
                "a {kind} sends no mutation: missing effect, make it a create, an update, a delete or an action"
            );
            self.fault(&path.then("graphql").then("document"), message);
        }
    }

    fn input(&mut self, input: &Input, operation: &Operation, entity: &Entity, path: &KeyPath) {
        let about_key = matches!(operation.kind, Kind::Get | Kind::Update | Kind::Delete | Kind::Action);
        match input {
            Input::Arg(name) if operation.args.get(name).is_none() => {
                let near = names::did_you_mean(name, operation.args.keys());
                self.fault(path, format!("it sends args.{name}, which is not declared in args{near}"));
            }
            Input::Key(name) if !about_key || !entity.key.contains(name) => {
                self.fault(path, format!("it sends key.{name}, and there is no such key"));
            }
            Input::Text if operation.kind != Kind::Search => {
                self.fault(path, "it sends text, and only a search has that");
            }
            _ => {}
        }
    }
}

/// Everything that an operation sends. `Err`: what stands in a mapping and is nothing that can be sent.
pub(super) fn inputs(operation: &Operation) -> Result<Vec<Input>, String> {
    let mut found = Vec::new();
    if let Some(http) = &operation.http {
        found.extend(placeholders(&http.send)?);
        for (_, value) in http.query.iter().chain(http.headers.iter()) {
            leaves(value, &mut found)?;
        }
        http.body.iter().try_for_each(|body| leaves(body, &mut found))?;
    }
    for (_, value) in operation.graphql.iter().flat_map(|to| to.variables.iter()) {
        leaves(value, &mut found)?;
    }
    for (_, value) in operation.mcp.iter().flat_map(|to| to.arguments.iter()) {
        leaves(value, &mut found)?;
    }
    Ok(found)
}

fn leaves(value: &Json, found: &mut Vec<Input>) -> Result<(), String> {
    match value {
        Json::String(text) => found.push(Input::parse(text).ok_or_else(|| text.clone())?),
        Json::Array(items) => items.iter().try_for_each(|item| leaves(item, found))?,
        Json::Object(map) if map.len() == 1 && map.contains_key("const") => {}
        Json::Object(map) => map.values().try_for_each(|item| leaves(item, found))?,
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
    Ok(())
}

fn is_address(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https") && url.has_host() && url.username().is_empty()
    })
}

fn is_request_line(line: &str) -> bool {
    line.split_once(' ').is_some_and(|(verb, path)| {
        matches!(verb, "GET" | "POST" | "PUT" | "PATCH" | "DELETE")
            && (path.starts_with('/') || path.starts_with("https://") || path.starts_with("http://"))
            && !path.contains(char::is_whitespace)
    })
}

fn is_secret_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-/".contains(&byte))
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Get => "get",
        Kind::Query => "query",
        Kind::Search => "search",
        Kind::Create => "create",
        Kind::Update => "update",
        Kind::Delete => "delete",
        Kind::Action => "action",
    }
}
