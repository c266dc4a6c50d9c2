//! What is done to the things that are listed: tools that take the identity of one, make one or get one are the thing's own.

use serde_json::Value as Json;

use super::{
    named::Taken,
    noun::{self, Noun},
    parts::Entity,
    schema::Schema,
    sheet::Sheet,
};

/// The entities that are listed, each by its place among all.
#[derive(Default)]
pub(super) struct Things(Vec<Thing>);

/// An entity that is listed.
struct Thing {
    at: usize,
    noun: Noun,
    methods: Taken,
    searched: bool,
    got: bool,
}

/// What a tool is to a thing.
pub(super) struct Found {
    /// The entity's place.
    pub at: usize,
    /// What the tool calls the identity that it is called on; `None`: it makes one.
    pub key: Option<String>,
    /// It gives the thing itself, by nothing but its identity.
    pub gets: bool,
    /// The name of the method; of what gets nothing.
    pub method: String,
}

impl Things {
    /// Takes note of an entity. `one`: what a row is called; `key`: what a row calls its identity.
    pub fn add(&mut self, at: usize, entity: &Entity, one: &str, key: &str) {
        let mut methods = Taken::default();
        entity.fields.iter().for_each(|(field, _)| drop(methods.name(field, "value")));
        self.0.push(Thing { at, noun: Noun::new(one, key), methods, searched: false, got: false });
    }

    pub fn has(&self, at: usize) -> bool {
        self.0.iter().any(|one| one.at == at)
    }

    /// Whether this search is the entity's first, which alone can be its search.
    pub fn first_search(&mut self, at: usize) -> bool {
        let thing = self.0.iter_mut().find(|one| one.at == at);
        thing.is_some_and(|thing| !std::mem::replace(&mut thing.searched, true))
    }

    /// The thing that a tool is about: that its name speaks of first, and whose identity it takes, or that it makes. What gives
    /// something of another form is about none.
    pub fn of(
        &mut self,
        name: &str,
        tool: &Json,
        gives: &[(String, Sheet)],
        entities: &[Entity],
    ) -> Option<Found> {
        let input = Schema::new(&tool["inputSchema"], &tool["inputSchema"]);
        let words = noun::words(name);
        let about = |(index, thing): (usize, &Thing)| {
            let place = thing.noun.within(&words)?;
            let key = thing.noun.key_in(input);
            let same = gives.is_empty() || *gives == entities[thing.at].fields;
            (same && (key.is_some() || thing.noun.is_made_by(&words))).then_some((place, index, key))
        };
        let found = self.0.iter().enumerate().filter_map(about);
        let (_, index, key) = found.min_by_key(|(place, index, _)| (*place, *index))?;
        let thing = &mut self.0[index];
        let alone = key.is_some() && input.properties().len() == 1 && !gives.is_empty();
        let reads = tool["annotations"]["readOnlyHint"] == true;
        let gets = alone && reads && !std::mem::replace(&mut thing.got, true);
        let method = if gets { String::new() } else { thing.methods.name(name, "tool") };
        Some(Found { at: thing.at, key, gets, method })
    }
}
