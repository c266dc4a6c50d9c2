//! An operation of the catalog that is being drafted: what it takes of whom, and how it is sent.

use serde_json::Value as Json;

use super::{
    super::{
        named::{Taken, prose},
        parts::Parts,
        schema::{self, Schema},
        sheet::{Sheet, map, some},
    },
    document::{Answer, Body, Called, In, Param},
    lists::Paging,
    things::Things,
};

/// Most arguments that the properties of a body become; with more it is one.
const MOST_ARGS: usize = 60;

/// Whose an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Thing(usize),
    /// The API's own entity's.
    Own,
}

#[derive(Clone, Debug)]
pub(super) struct Made<'a> {
    pub called: &'a Called<'a>,
    pub id: String,
    pub kind: &'static str,
    pub of: Of,
    /// Its name in programs.
    pub method: Option<String>,
    /// How many of the path's parameters are the key.
    pub keyed: usize,
    /// What the others are called.
    pub path_args: Vec<String>,
    pub locator: Option<(&'static str, String)>,
    /// The form of its rows.
    pub rows: Option<Schema<'a>>,
    /// What a list cannot be asked without, by the document's names, sorted.
    pub needed: Vec<String>,
    pub paging: Paging,
    /// The parameter that takes the words of a search.
    pub words: Option<String>,
    /// Of methods: what it does to the world.
    pub class: Option<&'static str>,
}

/// What a method is called that is called on what the first segments name: the last part of `issues/lock`, or what the path
/// goes on with.
pub(super) fn method_name(called: &Called<'_>, after: usize) -> String {
    let last = called.id.rsplit(['/', '.']).next().filter(|last| !last.is_empty());
    match (called.is_unnamed, last) {
        (false, Some(last)) => last.to_owned(),
        _ => match called.path.tail(after) {
            Some(tail) => format!("{}_{tail}", called.verb.to_lowercase()),
            None => called.verb.to_lowercase(),
        },
    }
}

/// Names for the parameters of a path from that one on.
pub(super) fn path_args(called: &Called<'_>, from: usize) -> Vec<String> {
    let mut taken = Taken::default();
    called.path.params().into_iter().skip(from).map(|param| taken.name(param, "value")).collect()
}

/// Of the queries of an entity those that need more come first: it is the first that can be asked which is.
pub(super) fn in_order(made: &mut [Made<'_>]) {
    let places: Vec<usize> = (0..made.len()).filter(|at| made[*at].kind == "query").collect();
    let mut queries: Vec<Made<'_>> = places.iter().map(|at| made[*at].clone()).collect();
    queries.sort_by_key(|one| std::cmp::Reverse(one.needed.len()));
    for (place, query) in places.into_iter().zip(queries) {
        made[place] = query;
    }
}

/// Arguments, and where each is sent.
#[derive(Default)]
struct Sent {
    taken: Taken,
    args: Vec<(String, Sheet)>,
    query: Vec<(String, Sheet)>,
    headers: Vec<(String, Sheet)>,
    body: Option<Sheet>,
}

impl<'a> Made<'a> {
    pub fn new(called: &'a Called<'a>, id: String, kind: &'static str, of: Of) -> Made<'a> {
        Made {
            called,
            id,
            kind,
            of,
            method: None,
            keyed: 0,
            path_args: Vec::new(),
            locator: None,
            rows: None,
            needed: Vec::new(),
            paging: Paging::default(),
            words: None,
            class: None,
        }
    }

    pub fn is_disabled(&self) -> bool {
        self.class.is_some_and(|class| class != "read")
    }

    /// Its id and what the catalog says of it.
    pub fn sheet(self, things: &Things<'a>, parts: &mut Parts<'_>) -> (String, Sheet) {
        let called = self.called;
        let mut sent = Sent::default();
        self.path(&mut sent, things);
        if self.kind != "get" {
            self.beside(&mut sent, things);
            if let Some(body) = called.body {
                self.body(&mut sent, body);
            }
        }
        let (entity, method) = match self.of {
            Of::Thing(thing) => (things.all[thing].name.clone(), self.method.clone()),
            Of::Own => {
                let (entity, method) =
                    parts.own(&method_name(called, 0), 80 + called.id.len() + 24 * sent.args.len());
                (entity, Some(method))
            }
        };
        let key = self.key(things);
        let line = called.path.send(&called.verb, |number| match number.checked_sub(self.keyed) {
            Some(number) => format!("args.{}", self.path_args.get(number).map_or("", String::as_str)),
            None => format!("key.{}", key[number]),
        });
        if let Answer::Json { media: Some(media), .. } = called.answer {
            sent.headers.push(("Accept".to_owned(), constant(media)));
        }
        if let Some(media) = called.body.and_then(|body| body.media) {
            sent.headers.push(("Content-Type".to_owned(), constant(media)));
        }
        let mut mapping = vec![("send", line.into())];
        mapping.extend((!sent.query.is_empty()).then(|| ("query", map(sent.query))));
        mapping.extend((!sent.headers.is_empty()).then(|| ("headers", map(sent.headers))));
        mapping.extend(sent.body.map(|body| ("body", body)));
        mapping.extend(self.locator.clone().map(|(key, at)| (key, at.into())));
        let operation = some([
            ("kind", Some(self.kind.into())),
            ("entity", Some(entity.into())),
            ("name", method.filter(|method| *method != self.id).map(Into::into)),
            ("about", called.about.clone().map(Into::into)),
            ("text", self.words.clone().map(Into::into)),
            ("args", (!sent.args.is_empty()).then(|| map(sent.args))),
            ("returns", self.returns(things)),
            ("effect", self.effect()),
            ("enabled", self.is_disabled().then(|| false.into())),
            ("http", Some(map(mapping))),
            ("pages", self.paging.sheet.clone()),
        ]);
        (self.id, operation)
    }

    fn key(&self, things: &Things<'_>) -> Vec<String> {
        match self.of {
            Of::Thing(thing) => things.all[thing].key.iter().map(|part| part.name.clone()).collect(),
            Of::Own => Vec::new(),
        }
    }

    fn path(&self, sent: &mut Sent, things: &Things<'_>) {
        let reads = matches!(self.kind, "query" | "search");
        let params = self.called.path.params();
        for (number, (param, name)) in params.iter().skip(self.keyed).zip(&self.path_args).enumerate() {
            let number = number + self.keyed;
            sent.taken.name(name, "value");
            let need = if reads { "scope" } else { "required" };
            // What an entity is told apart by alone is a reference to it, unless the rows have a field of that name.
            let to =
                self.called.path.until(number).filter(|_| number == 0).and_then(|path| things.read_by(&path));
            let to = to.map(|thing| &things.all[thing]).filter(|thing| thing.key.len() == 1);
            let is_field = match self.of {
                Of::Thing(thing) => things.all[thing].has_field(name),
                Of::Own => false,
            };
            let sheet = match (to, self.called.in_path(param)) {
                (Some(to), _) if !is_field => map([("ref", to.name.clone().into()), ("need", need.into())]),
                (_, Some(declared)) => {
                    schema::argument(declared.schema, declared.raw, Some(need), wire(name, param))
                }
                (_, None) => map([("type", "string".into()), ("need", need.into())]),
            };
            sent.args.push((name.clone(), sheet));
        }
    }

    /// Parameters of the query and headers, but those of pages, of a search's words and of the idempotency key.
    fn beside(&self, sent: &mut Sent, things: &Things<'_>) {
        for param in &self.called.params {
            if self.paging.sent.iter().any(|name| name == param.name) || is_idempotency(param) {
                continue;
            }
            if self.words.as_deref() == Some(param.name) {
                sent.query.push((param.name.to_owned(), "text".into()));
                continue;
            }
            let is_rows = matches!(self.of, Of::Thing(thing) if things.all[thing].is_rows(param.name));
            let wanted = if is_rows { format!("{}_value", param.name) } else { param.name.to_owned() };
            let name = sent.taken.name(&wanted, "value");
            let need = param.required.then_some("required");
            let sheet = match param.joined {
                Some(by) => some([
                    ("type", Some("string".into())),
                    ("need", need.map(Into::into)),
                    ("wire", wire(&name, param.name).map(|wire| wire.into())),
                    ("about", Some(joined(param, by).into())),
                ]),
                None => schema::argument(param.schema, param.raw, need, wire(&name, param.name)),
            };
            let to = if param.place == In::Header { &mut sent.headers } else { &mut sent.query };
            if !to.iter().any(|(have, _)| have == param.name) {
                to.push((param.name.to_owned(), format!("args.{name}").into()));
                sent.args.push((name, sheet));
            }
        }
    }

    fn body(&self, sent: &mut Sent, body: Body<'a>) {
        let mut props = body.schema.properties();
        props.retain(|(_, raw)| body.schema.to(raw).at["readOnly"] != true && raw["readOnly"] != true);
        let apart =
            !props.is_empty() && props.len() <= MOST_ARGS && !props.iter().any(|(wire, _)| wire == "const");
        if !apart {
            let name = sent.taken.name("body", "value");
            let need = body.required.then_some("required");
            let sheet = schema::argument(body.schema, body.raw, need, None);
            sent.body = Some(format!("args.{name}").into());
            sent.args.push((name, sheet));
            return;
        }
        let (mut members, always) = (Vec::new(), body.schema.required());
        for (wire_name, raw) in props {
            let name = sent.taken.name(&wire_name, "value");
            let need = (body.required && always.contains(&*wire_name)).then_some("required");
            let sheet = schema::argument(body.schema.to(raw), raw, need, wire(&name, &wire_name));
            sent.args.push((name.clone(), sheet));
            members.push((wire_name, format!("args.{name}").into()));
        }
        sent.body = Some(map(members));
    }

    fn returns(&self, things: &Things<'a>) -> Option<Sheet> {
        let (Of::Thing(thing), Some(rows)) = (self.of, self.rows) else { return None };
        let fields = things.comes(thing, rows).map(|fields| Json::from(fields).into());
        let coverage = (!self.paging.whole).then(|| "unknown".into());
        (fields.is_some() || coverage.is_some()).then(|| some([("fields", fields), ("coverage", coverage)]))
    }

    fn effect(&self) -> Option<Sheet> {
        let class = self.class?;
        let idempotent = class != "read" && matches!(self.called.verb.as_str(), "PUT" | "DELETE");
        let header = self.called.params.iter().find(|param| is_idempotency(param));
        Some(some([
            ("class", Some(class.into())),
            ("idempotent", idempotent.then(|| true.into())),
            ("idempotency_header", header.filter(|_| class != "read").map(|header| header.name.into())),
        ]))
    }
}

fn wire<'w>(name: &str, wire: &'w str) -> Option<&'w str> {
    (name != wire).then_some(wire)
}

fn constant(text: &str) -> Sheet {
    map([("const", text.into())])
}

fn is_idempotency(param: &Param<'_>) -> bool {
    let known = ["idempotency-key", "x-idempotency-key"];
    param.place == In::Header && known.contains(&&*param.name.to_ascii_lowercase())
}

fn joined(param: &Param<'_>, by: char) -> String {
    let by = match by {
        ',' => "commas",
        ' ' => "spaces",
        _ => "bars (|)",
    };
    let about = schema::describes(param.schema, param.raw).unwrap_or_default();
    prose(&format!("Several, joined by {by}. {about}"), 120).unwrap_or_default()
}
