//! What a tool is about, by its name: the thing that a list is of, and what tools call its identity.

use super::{named, schema::Schema};

/// Words that make a thing, before the thing's own.
const MAKE: [&str; 6] = ["create", "add", "new", "make", "insert", "open"];

/// The thing that an entity's list is of.
#[derive(Clone, Debug)]
pub(super) struct Noun {
    words: Vec<String>,
    /// The row's own name of its identity, in small letters and digits alone.
    key: String,
}

impl Noun {
    /// `one`: what a row is called (`pullRequest`); `key`: what it calls its identity.
    pub fn new(one: &str, key: &str) -> Noun {
        Noun { words: words(one), key: plain(key) }
    }

    /// Where it stands among a name's words.
    pub fn within(&self, words: &[String]) -> Option<usize> {
        (0..words.len()).find(|at| words[*at..].starts_with(&self.words))
    }

    /// Whether a tool of that name makes one: `create_issue`, and not `create_issue_label`.
    pub fn is_made_by(&self, words: &[String]) -> bool {
        words.split_first().is_some_and(|(first, rest)| MAKE.contains(&first.as_str()) && rest == self.words)
    }

    /// The argument by which a tool is given one: it is needed, and called as the row calls its identity, or by the thing's name
    /// before that.
    pub fn key_in(&self, input: Schema<'_>) -> Option<String> {
        let long = self.words.concat() + &self.key;
        let needed = |name: &String| {
            input.requires(name)
                && input
                    .property(name)
                    .is_some_and(|of| matches!(of.kind(), Some("string" | "integer" | "number")))
        };
        let names: Vec<String> =
            input.properties().into_iter().map(|(name, _)| name).filter(needed).collect();
        let called = |wanted: &str| names.iter().find(|name| plain(name) == wanted).cloned();
        called(&long).or_else(|| called(&self.key))
    }
}

/// The words of a name, in small letters and without their plural.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (was_small && c.is_uppercase()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
        was_small = c.is_lowercase() || c.is_numeric();
    }
    words.into_iter().filter(|word| !word.is_empty()).map(|word| named::singular(&word)).collect()
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    #[test]
    fn a_tool_is_about_a_thing_that_its_name_says_and_whose_identity_it_takes() {
        let issue = Noun::new("issue", "id");
        let given = |needed: &[&str]| {
            let properties: serde_json::Map<String, Json> =
                needed.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
            let schema = json!({"type": "object", "properties": properties, "required": needed});
            issue.key_in(Schema::new(&schema, &schema))
        };
        assert_eq!(given(&["issue_id", "id"]).as_deref(), Some("issue_id"));
        assert_eq!(given(&["issueId"]).as_deref(), Some("issueId"));
        assert_eq!(given(&["id"]).as_deref(), Some("id"));
        assert_eq!(given(&["repo_id"]), None);
        assert_eq!(issue.within(&words("commentOnIssues")), Some(2));
        assert_eq!(issue.within(&words("tissue_of")), None);
        assert!(issue.is_made_by(&words("create-issue")) && !issue.is_made_by(&words("create_issue_label")));
        assert!(Noun::new("pullRequest", "id").is_made_by(&words("open_pull_request")));
    }
}
