//! What every draft is made of: entities, operations, names of which no two are alike, and the source's own entities, which
//! have as methods what fits no other. Knows nothing of what is drafted from.

use super::{
    Draft, finish,
    named::{self, Taken, prose},
    sheet::{Sheet, map, some},
};
use crate::execute::catalog::CatalogError;

/// About how many bytes of the teaching table the methods of one entity may take: half of what one wave may have, so that
/// each entity can be seeded.
const MOST_TAUGHT: usize = 12 << 10;

/// An entity that is being drafted.
pub(super) struct Entity {
    pub name: String,
    pub about: Option<String>,
    pub key: Vec<String>,
    pub fields: Vec<(String, Sheet)>,
    pub relations: Vec<(String, Sheet)>,
}

/// The source's own entity, to which methods are added until it teaches enough.
struct Own {
    /// Its place among the entities.
    at: usize,
    methods: Taken,
    taught: usize,
}

pub(super) struct Parts<'a> {
    /// The catalog's id is made of it, and its own entity's name.
    pub name: &'a str,
    pub title: Option<&'a str>,
    /// What its own entity has, and what one of them is called that needs another name.
    what: (&'static str, &'static str),
    pub entities: Vec<Entity>,
    pub operations: Vec<(String, Sheet)>,
    /// Names of entities.
    pub taken: Taken,
    /// Ids of operations.
    pub ids: Taken,
    pub notes: Vec<String>,
    own: Option<Own>,
}

impl<'a> Parts<'a> {
    pub fn new(name: &'a str, title: Option<&'a str>, what: (&'static str, &'static str)) -> Parts<'a> {
        Parts {
            name,
            title,
            what,
            entities: Vec::new(),
            operations: Vec::new(),
            taken: Taken::default(),
            ids: Taken::default(),
            notes: Vec::new(),
            own: None,
        }
    }

    /// The entity and the name of a method that fits no other, of which about so many bytes are taught.
    pub fn own(&mut self, wire: &str, taught: usize) -> (String, String) {
        let mut own = match self.own.take() {
            Some(own) if own.taught + taught <= MOST_TAUGHT => own,
            _ => {
                let name = self.taken.entity(self.name);
                let at = self.entities.len();
                self.entities.push(Entity {
                    name,
                    about: None,
                    key: Vec::new(),
                    fields: Vec::new(),
                    relations: Vec::new(),
                });
                Own { at, methods: Taken::default(), taught: 0 }
            }
        };
        own.taught += taught;
        let method = own.methods.name(wire, self.what.1);
        let entity = &mut self.entities[own.at];
        let title = self.title.unwrap_or(self.name);
        // Which they are is not said here: it depends on who asks.
        entity.about = prose(&format!("{} of {title}", self.what.0), 160);
        let name = entity.name.clone();
        self.own = Some(own);
        (name, method)
    }

    /// The draft of all of it. `head`: lines of comment before it.
    pub fn finish(mut self, head: &[String], source: Sheet) -> Result<Draft, CatalogError> {
        if self.entities.is_empty() {
            let name = self.taken.entity(self.name);
            let (key, fields, relations) = (Vec::new(), Vec::new(), Vec::new());
            self.entities.push(Entity { name, about: None, key, fields, relations });
        }
        let title = prose(self.title.unwrap_or_default(), 120).unwrap_or_else(|| self.name.to_owned());
        let entities = self.entities.into_iter().map(|entity| {
            let sheet = some([
                ("about", entity.about.map(Into::into)),
                ("key", Some(serde_json::Value::from(entity.key).into())),
                ("fields", Some(map(entity.fields))),
                ("relations", (!entity.relations.is_empty()).then(|| map(entity.relations))),
            ]);
            (entity.name, sheet)
        });
        let sheet = map([
            ("catalog", named::api(self.name).into()),
            ("revision", 1.into()),
            ("title", title.into()),
            ("source", source),
            ("entities", map(entities)),
            ("operations", map(self.operations)),
        ]);
        finish(head, &sheet, self.notes)
    }
}
