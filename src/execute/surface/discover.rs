//! `discover_capabilities`: entities of the admitted catalogs, ranked by how well their words fit (BM25). Deterministic:
//! equal scores stand in the order of catalogs and files.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::json;

use super::{
    Inner,
    answer::{self, Answer},
    shown::is_idle,
};
use crate::{
    execute::{
        catalog::{Catalog, Catalogs, Entity},
        fault::Fault,
    },
    mcp::Caller,
};

/// Most rows of an answer.
const MOST: usize = 24;
/// Longest row, in characters.
const LONGEST: usize = 200;
/// Longest query, in characters of all sentences.
const LONGEST_QUERY: usize = 4_000;
/// How often a word counts the less, and how much long documents are held against them (the usual constants of BM25).
const K1: f64 = 1.2;
const B: f64 = 0.75;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    query: Query,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Query {
    One(String),
    Many(Vec<String>),
}

/// An entity as it is searched.
struct Document<'a> {
    api: &'a str,
    entity: &'a str,
    description: String,
    /// How much each word counts in it.
    words: HashMap<String, f64>,
    length: f64,
}

impl Inner {
    pub(super) fn discover(&self, caller: &Caller, ask: &Ask) -> Answer {
        let queries = match &ask.query {
            Query::One(query) => vec![query.clone()],
            Query::Many(queries) => queries.clone(),
        };
        if queries.iter().map(String::len).sum::<usize>() > LONGEST_QUERY {
            return answer::fault(&Fault::new(
                "too_large",
                format!("the query has more than {LONGEST_QUERY} bytes"),
                "say in a sentence what is to be done",
            ));
        }
        let catalogs = self.shown(caller, &self.logical.catalogs());
        let found = ranked(&queries, &catalogs);
        let mut text = "```tsv\napi\tentity\tdescription\n".to_owned();
        for one in &found {
            text += &row(one);
            text.push('\n');
        }
        text += "```\n";
        let mut namesakes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for one in &found {
            namesakes.entry(one.entity).or_default().push(one.api);
        }
        namesakes.retain(|_, apis| apis.len() > 1);
        for (entity, apis) in &namesakes {
            text += &format!(
                "{entity} stands in several catalogs: {}. Name the one you mean.\n",
                apis.join(", ")
            );
        }
        if found.is_empty() {
            let all = catalogs.iter().map(|(api, _)| api);
            text += &format!("Nothing fits. Catalogs: {}.\n", all.collect::<Vec<_>>().join(", "));
        } else {
            text += "Open the ones you need with plasm_context.\n";
        }
        let entities: Vec<_> = found
            .iter()
            .map(|one| json!({"api": one.api, "entity": one.entity, "description": one.description}))
            .collect();
        answer::said(&text, json!({"entities": entities, "ambiguous": namesakes}), None)
    }
}

fn row(one: &Document<'_>) -> String {
    let plain = one.description.replace(['\t', '\n', '\r'], " ");
    let row = format!("{}\t{}\t{plain}", one.api, one.entity);
    match row.char_indices().nth(LONGEST) {
        None => row,
        Some(_) => row.chars().take(LONGEST - 1).chain(['…']).collect(),
    }
}

/// The entities that share a word with the queries, the best first.
fn ranked<'a>(queries: &[String], catalogs: &'a Catalogs) -> Vec<Document<'a>> {
    let documents: Vec<Document<'a>> = (catalogs.iter())
        .flat_map(|(api, loaded)| {
            let catalog = &*loaded.catalog;
            let entities = catalog.entities.iter().filter(|(name, _)| !is_idle(catalog, name));
            entities.map(move |(name, entity)| document(api, catalog, name, entity))
        })
        .collect();
    let mean = documents.iter().map(|one| one.length).sum::<f64>() / (documents.len().max(1) as f64);
    let mut wanted: Vec<String> = queries.iter().flat_map(|query| words(query)).collect();
    wanted.sort();
    wanted.dedup();
    let rarity: Vec<f64> = wanted
        .iter()
        .map(|word| {
            let having = documents.iter().filter(|one| one.words.contains_key(word)).count() as f64;
            (1.0 + (documents.len() as f64 - having + 0.5) / (having + 0.5)).ln()
        })
        .collect();
    let score = |one: &Document<'_>| -> f64 {
        let of_word = |(word, rarity): (&String, &f64)| {
            let often = one.words.get(word).copied().unwrap_or_default();
            rarity * often * (K1 + 1.0) / (often + K1 * (1.0 - B + B * one.length / mean.max(1.0)))
        };
        wanted.iter().zip(&rarity).map(of_word).sum()
    };
    let mut scored: Vec<(f64, Document<'a>)> =
        documents.into_iter().map(|one| (score(&one), one)).filter(|(score, _)| *score > 0.0).collect();
    // A stable sort: what is equal stays in order.
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.truncate(MOST);
    scored.into_iter().map(|(_, one)| one).collect()
}

fn document<'a>(api: &'a str, catalog: &'a Catalog, name: &'a str, entity: &'a Entity) -> Document<'a> {
    let mut counted: HashMap<String, f64> = HashMap::new();
    let mut add = |text: &str, weight: f64| {
        for word in words(text) {
            *counted.entry(word).or_default() += weight;
        }
    };
    add(name, 4.0);
    add(entity.about.as_deref().unwrap_or_default(), 2.0);
    add(api, 2.0);
    add(&catalog.title, 1.0);
    catalog.aliases.iter().for_each(|alias| add(alias, 2.0));
    add(catalog.about.as_deref().unwrap_or_default(), 1.0);
    for (name, field) in entity.fields.iter() {
        add(name, 1.0);
        add(field.about.as_deref().unwrap_or_default(), 0.5);
    }
    entity.relations.iter().for_each(|(name, _)| add(name, 1.0));
    for (id, operation) in catalog.operations_of(name) {
        add(operation.name.as_deref().unwrap_or(id), 1.0);
        add(operation.about.as_deref().unwrap_or_default(), 1.0);
    }
    let mut description = entity.about.clone().unwrap_or_else(|| catalog.title.clone());
    // What has no fields is known by what it does.
    let methods = catalog.methods(name).map(|(method, _, _)| method);
    let members: Vec<&str> = match (&entity.about, entity.fields.is_empty()) {
        (_, true) => methods.collect(),
        (None, false) => entity.fields.keys().take(8).collect(),
        (Some(_), false) => Vec::new(),
    };
    for (index, member) in members.into_iter().enumerate() {
        if description.len() + member.len() > LONGEST {
            description.push_str(", …");
            break;
        }
        description = match index {
            0 => format!("{}: {member}", description.trim_end_matches('.')),
            _ => format!("{description}, {member}"),
        };
    }
    let length = counted.values().sum();
    Document { api, entity: name, description, words: counted, length }
}

/// The words of a text: runs of letters and digits, parted where a capital follows a small letter, in small letters, without
/// the plural's `s`.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut was_small = false;
    for c in text.chars() {
        let parts = !c.is_alphanumeric() || (was_small && c.is_uppercase());
        if parts && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        was_small = c.is_lowercase() || c.is_numeric();
    }
    if !word.is_empty() {
        words.push(word);
    }
    for word in &mut words {
        if word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") {
            word.pop();
        }
    }
    words.retain(|word| !COMMON.contains(&word.as_str()));
    words
}

/// Words that say nothing of what is sought.
const COMMON: [&str; 22] = [
    "a", "an", "and", "all", "by", "for", "from", "get", "in", "is", "it", "list", "me", "of", "on", "or",
    "show", "that", "the", "to", "with", "find",
];

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn words_are_parted_at_capitals_and_lose_the_plural() {
        assert_eq!(words("List the openIssues of PullRequests"), ["open", "issue", "pull", "request"]);
        assert_eq!(words("class_s3 äÖ"), ["class", "s3", "ä", "ö"]);
        assert!(words(" .. ").is_empty());
    }
}
