//! What a session has taught: its entities, and the short names of entities, relations and methods. Symbols are numbered
//! once and never again; a wave of seeds only adds. Pure: whoever stores a ledger stores it as it is.

use std::{collections::BTreeSet, sync::Arc};

use serde::{Deserialize, Serialize};

use super::catalog::{Catalog, Catalogs};

/// Most entities of one session.
pub const MOST_ENTITIES: usize = 64;
/// Most symbols of one session.
pub const MOST_SYMBOLS: usize = 2_000;

/// An entity of a catalog, by names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seed {
    pub api: String,
    pub entity: String,
}

/// A relation or a method of an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    #[serde(flatten)]
    pub owner: Seed,
    /// A relation's name, or a method's in programs.
    pub name: String,
}

/// Every symbol that was given, in order: the first entity is `e1`. Append-only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    pub entities: Vec<Seed>,
    pub relations: Vec<Member>,
    pub methods: Vec<Member>,
}

/// Why seeds are not taken. All that are wrong are named.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SeedError {
    #[error("unknown: {}", .0.iter().map(|seed| format!("{}::{}", seed.api, seed.entity)).collect::<Vec<_>>().join(", "))]
    Unknown(Vec<Seed>),
    #[error("a session has at most {MOST_ENTITIES} entities and {MOST_SYMBOLS} symbols")]
    TooMany,
}

impl Ledger {
    /// Adds what the seeds bring that is not known yet: catalogs in lexicographic order, entities, relations and methods in
    /// file order, whatever the order of the seeds. A relation is numbered once both of its ends are there.
    pub fn extend(&mut self, seeds: &[Seed], catalogs: &Catalogs) -> Result<(), SeedError> {
        let known = |seed: &&Seed| {
            catalogs.get(&seed.api).is_some_and(|loaded| loaded.catalog.entity(&seed.entity).is_some())
        };
        let unknown: BTreeSet<&Seed> = seeds.iter().filter(|seed| !known(seed)).collect();
        if !unknown.is_empty() {
            return Err(SeedError::Unknown(unknown.into_iter().cloned().collect()));
        }
        let mut next = self.clone();
        for (api, loaded) in catalogs.iter() {
            next.extend_by(api, &loaded.catalog, seeds);
        }
        let symbols = next.entities.len() + next.relations.len() + next.methods.len();
        if next.entities.len() > MOST_ENTITIES || symbols > MOST_SYMBOLS {
            return Err(SeedError::TooMany);
        }
        *self = next;
        Ok(())
    }

    fn extend_by(&mut self, api: &str, catalog: &Catalog, seeds: &[Seed]) {
        let owner = |entity: &str| Seed { api: api.to_owned(), entity: entity.to_owned() };
        for entity in catalog.entities.keys() {
            let seed = owner(entity);
            if seeds.contains(&seed) && !self.entities.contains(&seed) {
                self.entities.push(seed);
            }
        }
        for (entity, shape) in
            catalog.entities.iter().filter(|(name, _)| self.has(api, name)).collect::<Vec<_>>()
        {
            for (name, relation) in shape.relations.iter() {
                let member = Member { owner: owner(entity), name: name.to_owned() };
                if self.has(api, &relation.to) && !self.relations.contains(&member) {
                    self.relations.push(member);
                }
            }
        }
        // Methods in the order of the file's operations, which is not that of its entities.
        for (id, operation) in catalog.operations.iter() {
            let is_method =
                !operation.kind.is_read() && operation.enabled && self.has(api, &operation.entity);
            let name = operation.name.as_deref().unwrap_or(id).to_owned();
            let member = Member { owner: owner(&operation.entity), name };
            if is_method && !self.methods.contains(&member) {
                self.methods.push(member);
            }
        }
    }

    fn has(&self, api: &str, entity: &str) -> bool {
        self.entities.iter().any(|seed| seed.api == api && seed.entity == entity)
    }
}

/// What a program may name: a ledger with the catalogs that its entities are of.
#[derive(Clone, Debug)]
pub struct Scope {
    pub ledger: Ledger,
    /// One for each entity of the ledger.
    catalogs: Vec<Arc<Catalog>>,
}

/// An entity of the scope: its place in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntityId(pub usize);

impl Scope {
    /// `Err` where a catalog of the ledger, or its entity, is no longer there.
    pub fn new(ledger: Ledger, catalogs: &Catalogs) -> Result<Self, SeedError> {
        let mut of_entities = Vec::with_capacity(ledger.entities.len());
        let mut lost = Vec::new();
        for seed in &ledger.entities {
            match catalogs.get(&seed.api) {
                Some(loaded) if loaded.catalog.entity(&seed.entity).is_some() => {
                    of_entities.push(Arc::clone(&loaded.catalog));
                }
                _ => lost.push(seed.clone()),
            }
        }
        if lost.is_empty() {
            Ok(Self { ledger, catalogs: of_entities })
        } else {
            Err(SeedError::Unknown(lost))
        }
    }

    /// A first wave of seeds.
    pub fn of_seeds(seeds: &[Seed], catalogs: &Catalogs) -> Result<Self, SeedError> {
        let mut ledger = Ledger::default();
        ledger.extend(seeds, catalogs)?;
        Self::new(ledger, catalogs)
    }

    pub fn seed(&self, id: EntityId) -> &Seed {
        &self.ledger.entities[id.0]
    }

    pub fn name(&self, id: EntityId) -> &str {
        &self.seed(id).entity
    }

    pub fn catalog(&self, id: EntityId) -> &Catalog {
        &self.catalogs[id.0]
    }

    pub fn ids(&self) -> impl Iterator<Item = EntityId> + use<> {
        (0..self.catalogs.len()).map(EntityId)
    }

    /// The entity of that name in the catalog of another.
    pub fn sibling(&self, id: EntityId, name: &str) -> Option<EntityId> {
        let api = &self.seed(id).api;
        self.ids().find(|other| self.seed(*other).api == *api && self.name(*other) == name)
    }

    /// The number of a symbol `r…` that the relation bears.
    pub fn relation_symbol(&self, id: EntityId, name: &str) -> Option<String> {
        symbol('r', &self.ledger.relations, self.seed(id), name)
    }

    /// The number of a symbol `m…` that the method bears.
    pub fn method_symbol(&self, id: EntityId, name: &str) -> Option<String> {
        symbol('m', &self.ledger.methods, self.seed(id), name)
    }
}

fn symbol(letter: char, members: &[Member], owner: &Seed, name: &str) -> Option<String> {
    let index = members.iter().position(|member| member.owner == *owner && member.name == name)?;
    Some(format!("{letter}{}", index + 1))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::execute::catalog::load_folder;

    fn catalogs() -> Catalogs {
        load_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/language/catalogs")).unwrap()
    }

    fn seed(api: &str, entity: &str) -> Seed {
        Seed { api: api.to_owned(), entity: entity.to_owned() }
    }

    #[test]
    fn the_order_of_seeds_does_not_matter() {
        let mut seeds =
            vec![seed("tracker", "Issue"), seed("pokeapi", "Pokemon"), seed("tracker", "Project")];
        let one = Scope::of_seeds(&seeds, &catalogs()).unwrap().ledger;
        seeds.reverse();
        assert_eq!(Scope::of_seeds(&seeds, &catalogs()).unwrap().ledger, one);
        let names: Vec<_> = one.entities.iter().map(|seed| seed.entity.as_str()).collect();
        assert_eq!(names, ["Pokemon", "Project", "Issue"]);
    }

    #[test]
    fn what_was_numbered_keeps_its_number_and_a_relation_waits_for_its_end() {
        let mut ledger = Ledger::default();
        ledger.extend(&[seed("tracker", "Issue")], &catalogs()).unwrap();
        assert!(ledger.relations.is_empty(), "Label and Project are not there yet");
        let first = ledger.clone();
        ledger.extend(&[seed("pokeapi", "Type"), seed("tracker", "Label")], &catalogs()).unwrap();
        assert_eq!(ledger.entities[..1], first.entities);
        assert_eq!(ledger.methods, first.methods);
        assert_eq!(ledger.relations.len(), 1);
        let before = ledger.clone();
        ledger.extend(&[seed("tracker", "Label")], &catalogs()).unwrap();
        assert_eq!(ledger, before);
    }

    #[test]
    fn every_unknown_seed_is_named_and_nothing_is_taken() {
        let mut ledger = Ledger::default();
        let seeds = [seed("tracker", "Issue"), seed("tracker", "Isue"), seed("none", "X")];
        let error = ledger.extend(&seeds, &catalogs()).unwrap_err();
        assert_eq!(error.to_string(), "unknown: none::X, tracker::Isue");
        assert_eq!(ledger, Ledger::default());
    }
}
