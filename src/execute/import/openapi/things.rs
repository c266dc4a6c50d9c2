//! Entities of a document: what is told apart by which part of a path, and which property of a row says the same.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::{
    super::{
        named::{self, Taken, prose},
        parts::Entity,
        schema::{self, Schema, can_be_located, key_of},
        sheet::{Sheet, map},
    },
    document::{Called, Document},
    paths::Template,
};

/// Most fields of an entity.
const MOST_FIELDS: usize = 150;
/// Longest description of an entity, in characters.
const LONGEST: usize = 200;
/// What tells things apart, by many an API's custom.
const IDENTITIES: [&str; 11] =
    ["id", "slug", "key", "name", "code", "login", "number", "uuid", "sha", "username", "email"];

/// A property of a row.
#[derive(Clone, Debug)]
pub(super) struct Prop<'a> {
    /// The field's name.
    pub name: String,
    pub wire: String,
    pub raw: &'a Json,
    always: bool,
    /// Where it lies, if not under its own name.
    at: Option<String>,
}

/// A part of the key.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// The field's name.
    pub name: String,
    /// The property of a row that says it.
    pub wire: Option<String>,
    /// The field, where no property is it.
    own: Option<Sheet>,
}

/// An entity that is being drafted.
#[derive(Debug)]
pub(super) struct Thing<'a> {
    pub name: String,
    about: Option<String>,
    /// The path of its get.
    pub item: Option<Template>,
    pub key: Vec<Part>,
    pub props: Vec<Prop<'a>>,
    /// It has one field, which is the whole answer.
    value: bool,
    /// Properties that are no fields.
    pub left: Vec<String>,
    /// Names of fields, relations and methods.
    pub members: Taken,
    /// Relations along queries.
    pub bound: Vec<(String, Sheet)>,
    /// What its rows are by.
    pub schema: Schema<'a>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Things<'a> {
    pub all: Vec<Thing<'a>>,
    /// Which entity's rows have a form, by where the form stands in the document.
    forms: BTreeMap<*const Json, usize>,
    /// What the document calls a form.
    names: BTreeMap<*const Json, &'a str>,
}

fn place(of: Schema<'_>) -> *const Json {
    std::ptr::from_ref(of.at)
}

/// `petId`, `pet_id` and `pet-id` alike.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

/// The last word: of `issue_number` and `issueNumber` it is `number`.
fn last_word(name: &str) -> String {
    let start = name.char_indices().rev().find(|(_, c)| c.is_ascii_uppercase() || matches!(c, '_' | '-'));
    plain(start.map_or(name, |(at, _)| &name[at..]))
}

fn is_scalar(of: Schema<'_>) -> bool {
    matches!(of.kind(), Some("string" | "integer" | "number"))
}

impl<'a> Things<'a> {
    pub fn new(document: Document<'a>) -> Things<'a> {
        let mut things = Things::default();
        for (name, raw) in document.0["components"]["schemas"].as_object().into_iter().flatten() {
            let of = document.schema(raw);
            // A name that stands for another's form gives way to that.
            if std::ptr::eq(of.at, raw) {
                things.names.insert(place(of), name);
            } else {
                things.names.entry(place(of)).or_insert(name);
            }
        }
        things
    }

    /// The entity whose rows have that form.
    pub fn of_form(&self, form: Schema<'_>) -> Option<usize> {
        self.forms.get(&place(form)).copied()
    }

    /// Rows of another form are that entity's too.
    pub fn also(&mut self, form: Schema<'a>, thing: usize) {
        if !form.properties().is_empty() {
            self.forms.entry(place(form)).or_insert(thing);
        }
    }

    /// The entity that is read by that path, parameters' names aside.
    pub fn read_by(&self, path: &Template) -> Option<usize> {
        self.all.iter().position(|thing| thing.item.as_ref().is_some_and(|item| item.is_like(path)))
    }

    /// The entity that the longest beginning of a path names one of.
    pub fn owner(&self, path: &Template) -> Option<usize> {
        let fits =
            |thing: &Thing<'_>| thing.item.as_ref().filter(|item| path.begins_like(item)).map(Template::len);
        let all = self.all.iter().enumerate().filter_map(|(at, thing)| Some((fits(thing)?, at)));
        // Of two that are as long the first.
        all.max_by_key(|(len, at)| (*len, std::cmp::Reverse(*at))).map(|(_, at)| at)
    }

    /// A new entity of that form. Its key is made by the caller.
    fn make(
        &mut self,
        taken: &mut Taken,
        form: Schema<'a>,
        wanted: Option<String>,
        called: &Called<'a>,
    ) -> usize {
        let known = self.names.get(&place(form)).filter(|_| !self.forms.contains_key(&place(form)));
        let about_path = named::singular(called.path.about().unwrap_or(&called.id));
        let name = wanted.or_else(|| known.map(|name| (*name).to_owned())).unwrap_or(about_path);
        let mut members = Taken::default();
        let (mut all, mut left): (Vec<_>, Vec<_>) =
            form.properties().into_iter().partition(|(wire, _)| can_be_located(wire));
        left.extend(all.drain(MOST_FIELDS.min(all.len())..));
        let left = left.into_iter().map(|(wire, _)| wire).collect();
        let required = form.required();
        let props: Vec<Prop<'a>> = all
            .into_iter()
            .map(|(wire, raw)| {
                let name = members.name(&wire, "value");
                let at = (name != wire).then(|| format!("$.{wire}"));
                let always = required.contains(&*wire);
                Prop { name, wire, raw, always, at }
            })
            .collect();
        let value = props.is_empty();
        if value {
            members.name("value", "value");
        }
        let said = form.at["description"].as_str().and_then(|text| prose(text, LONGEST));
        self.all.push(Thing {
            name: taken.entity(&name),
            about: said.or_else(|| called.about.clone()),
            item: None,
            key: Vec::new(),
            props,
            value,
            left,
            members,
            bound: Vec::new(),
            schema: form,
        });
        self.all.len() - 1
    }

    /// One that a path names: the path's parameters are its key. `Err` in the second: the parameter that no property says.
    pub fn of_path(
        &mut self,
        taken: &mut Taken,
        called: &Called<'a>,
        form: Schema<'a>,
    ) -> (usize, Option<String>) {
        let at = self.make(taken, form, None, called);
        self.also(form, at);
        let params = called.path.params();
        let form_name = self.names.get(&place(form)).copied().unwrap_or_default();
        let thing = &mut self.all[at];
        thing.item = Some(called.path.clone());
        let mut unsaid = None;
        for (number, param) in params.iter().enumerate() {
            let is_own = number + 1 == params.len() && called.path.is_item();
            let typed = called.in_path(param).map(|param| param.schema);
            let singular = named::singular(called.path.names_one_of(number).unwrap_or_default());
            let kind = typed.and_then(|of| of.kind());
            let found = match is_own {
                true => thing.own_part(param, kind, &[&singular, form_name]),
                false => thing.parents_part(param, kind),
            };
            let part = match found {
                Some(prop) => {
                    let prop = &thing.props[prop];
                    Part { name: prop.name.clone(), wire: Some(prop.wire.clone()), own: None }
                }
                None => {
                    if is_own && !thing.value {
                        unsaid = Some((*param).to_owned());
                    }
                    let name = thing.members.name(param, "key");
                    let own =
                        typed.map_or_else(|| "string".into(), |of| schema::field(of, of.at, true, None));
                    Part { name, wire: None, own: Some(own) }
                }
            };
            thing.key.push(part);
        }
        (at, unsaid)
    }

    /// One that lists alone show; `None`: nothing tells its rows apart.
    pub fn of_rows(
        &mut self,
        taken: &mut Taken,
        called: &Called<'a>,
        form: Schema<'a>,
        wanted: Option<String>,
    ) -> Option<usize> {
        let entity = named::singular(called.path.about().unwrap_or_default());
        let scalar = |name: &&&str| form.requires(name) && form.property(name).is_some_and(is_scalar);
        let key = key_of(form, &entity)
            .or_else(|| IDENTITIES.iter().find(scalar).map(|name| (*name).to_owned()))?;
        can_be_located(&key).then_some(())?;
        let at = self.make(taken, form, wanted, called);
        self.also(form, at);
        let thing = &mut self.all[at];
        let prop = thing.props.iter().find(|prop| prop.wire == key)?;
        thing.key = vec![Part { name: prop.name.clone(), wire: Some(key), own: None }];
        Some(at)
    }

    /// One of which there is one: what an operation answers.
    pub fn of_answer(&mut self, taken: &mut Taken, called: &Called<'a>, form: Schema<'a>) -> usize {
        let name = called.id.rsplit(['/', '.']).next().unwrap_or(&called.id).to_owned();
        self.make(taken, form, Some(name), called)
    }

    /// What stands in the catalog of an entity.
    pub fn entity(&self, at: usize) -> Entity {
        let thing = &self.all[at];
        let (mut fields, mut relations) = (Vec::new(), Vec::new());
        for part in &thing.key {
            fields.extend(part.own.clone().map(|sheet| (part.name.clone(), sheet)));
        }
        if thing.value {
            fields.push((
                "value".to_owned(),
                map([("type", "json".into()), ("nullable", true.into()), ("at", "$".into())]),
            ));
        }
        for prop in &thing.props {
            let is_key = thing.key.iter().any(|part| part.name == prop.name);
            match self.embedded(thing, prop).filter(|_| !is_key) {
                Some(relation) => relations.push((prop.name.clone(), relation)),
                None => {
                    let of = thing.schema.to(prop.raw);
                    let sheet = schema::field(of, prop.raw, prop.always || is_key, prop.at.clone());
                    fields.push((prop.name.clone(), sheet));
                }
            }
        }
        relations.extend(thing.bound.iter().cloned());
        let key = thing.key.iter().map(|part| part.name.clone()).collect();
        Entity { name: thing.name.clone(), about: thing.about.clone(), key, fields, relations }
    }

    /// A property that holds rows of an entity which say their whole key.
    fn embedded(&self, thing: &Thing<'a>, prop: &Prop<'a>) -> Option<Sheet> {
        let of = thing.schema.to(prop.raw);
        let (form, many) = match of.kind() {
            Some("array") => (of.to(of.at.get("items")?), true),
            _ => (of, false),
        };
        let to = &self.all[self.of_form(form)?];
        let part = |part: &Part| {
            let prop = to.props.iter().find(|prop| prop.name == part.name)?;
            form.property(part.wire.as_ref()?)?;
            let at = prop.at.clone().unwrap_or_else(|| format!("$.{}", prop.wire));
            Some((part.name.clone(), Sheet::from(at)))
        };
        let key = to.key.iter().map(part).collect::<Option<Vec<_>>>().filter(|key| !key.is_empty())?;
        let rows = format!("$.{}{}", prop.wire, if many { ".*" } else { "" });
        let mut parts = vec![("to", to.name.clone().into())];
        if many {
            parts.push(("many", true.into()));
        }
        parts.push(("embed", map([("rows", rows.into()), ("key", map(key))])));
        Some(map(parts))
    }

    /// The fields and embedded rows that come with rows of that form; `None`: all.
    pub fn comes(&self, at: usize, form: Schema<'a>) -> Option<Vec<String>> {
        let thing = &self.all[at];
        if thing.value || place(thing.schema) == place(form) {
            return None;
        }
        let has = form.properties();
        let comes = |prop: &&Prop<'a>| has.iter().any(|(wire, _)| *wire == prop.wire);
        Some(thing.props.iter().filter(comes).map(|prop| prop.name.clone()).collect())
    }
}

impl<'a> Thing<'a> {
    fn scalars(&self) -> impl Iterator<Item = (usize, &Prop<'a>, Schema<'a>)> {
        let all = self.props.iter().enumerate().map(|(at, prop)| (at, prop, self.schema.to(prop.raw)));
        all.filter(|(_, prop, of)| is_scalar(*of) && !self.key.iter().any(|part| part.name == prop.name))
    }

    /// The property that a path's last parameter is. `words`: what one of these is called.
    fn own_part(&self, param: &str, kind: Option<&str>, words: &[&str]) -> Option<usize> {
        let wanted = plain(param);
        let named =
            |name: &str| self.scalars().find(|(_, prop, _)| plain(&prop.wire) == name).map(|(at, ..)| at);
        let words: Vec<String> =
            words.iter().map(|word| plain(word)).filter(|word| !word.is_empty()).collect();
        // Of `petId` the rest after `pet`, but of `username` none: that is one word.
        let begins =
            param.char_indices().skip(1).filter(|(_, c)| c.is_ascii_uppercase() || matches!(c, '_' | '-'));
        let mut parts = begins.map(|(at, _)| (plain(&param[..at]), plain(&param[at..])));
        let after = parts.find_map(|(first, rest)| named(&rest).filter(|_| words.contains(&first)));
        let last = || named(&last_word(param)).filter(|_| IDENTITIES.contains(&last_word(param).as_str()));
        let itself = || {
            let same = |of: Schema<'_>| kind.is_none() || of.kind() == kind;
            let one = |name: &&str| self.scalars().find(|(_, prop, of)| prop.wire == *name && same(*of));
            words.contains(&wanted).then(|| IDENTITIES.iter().find_map(one))?.map(|(at, ..)| at)
        };
        let other = || (wanted == "username").then(|| named("login"))?;
        named(&wanted).or(after).or_else(last).or_else(itself).or_else(other)
    }

    /// The property that says what it lies within: by the parameter's name, or an object of that name by its identity.
    fn parents_part(&mut self, param: &str, kind: Option<&str>) -> Option<usize> {
        let wanted = plain(param);
        if let Some((at, ..)) = self.scalars().find(|(_, prop, _)| plain(&prop.wire) == wanted) {
            return Some(at);
        }
        let at = self.props.iter().position(|prop| plain(&prop.wire) == wanted)?;
        let of = self.schema.to(self.props[at].raw);
        let (wire, raw) = ["login", "slug", "key", "name", "id"].iter().find_map(|name| {
            let inside = of.property(name).filter(|inside| is_scalar(*inside))?;
            let same = kind.is_none() || inside.kind() == kind;
            same.then_some((*name, inside.at))
        })?;
        let prop = &mut self.props[at];
        (prop.raw, prop.at) = (raw, Some(format!("$.{}.{wire}", prop.wire)));
        Some(at)
    }

    /// Whether rows of a list say its whole key: by a property, or by an argument of that name.
    pub fn is_known_by(&self, rows: Schema<'_>, args: &[String]) -> bool {
        self.key.iter().all(|part| {
            args.contains(&part.name) || part.wire.as_ref().is_some_and(|wire| rows.property(wire).is_some())
        })
    }

    /// Whether a field of its rows has that name.
    pub fn has_field(&self, name: &str) -> bool {
        self.key.iter().any(|part| part.name == name) || self.props.iter().any(|prop| prop.name == name)
    }

    /// Whether a word is of a property that holds rows or a list: no argument may have it.
    pub fn is_rows(&self, name: &str) -> bool {
        let rows = |prop: &Prop<'_>| !is_scalar(self.schema.to(prop.raw)) && prop.at.is_none();
        self.bound.iter().any(|(have, _)| have == name)
            || self
                .props
                .iter()
                .any(|prop| prop.name == name && rows(prop) && !self.key.iter().any(|part| part.name == name))
    }
}
