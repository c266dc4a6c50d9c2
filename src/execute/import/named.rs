//! Names for what others named: each a name that programs may write, and no two alike.

use std::collections::BTreeSet;

use crate::execute::names;

/// Longest name that is given; numbers that keep names apart come on top.
const LONGEST: usize = 56;

/// Names of one place that must not be alike.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken(BTreeSet<String>);

impl Taken {
    /// The name itself where it can be written and is free. `kind` is added to words of the language and to what reads like a
    /// symbol; a number to what was given before.
    pub fn name(&mut self, wire: &str, kind: &str) -> String {
        let name = plain(wire, kind);
        self.free(&name)
    }

    /// As [`Taken::name`], in the form of entities: `search_notes` is `SearchNotes`.
    pub fn entity(&mut self, wire: &str) -> String {
        self.free(&pascal(wire))
    }

    /// Of two alike the later gets a number.
    fn free(&mut self, name: &str) -> String {
        let mut free = name.to_owned();
        let mut number = 1;
        while !self.0.insert(free.clone()) {
            number += 1;
            free = format!("{name}_{number}");
        }
        free
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

fn plain(wire: &str, kind: &str) -> String {
    let mut name: String =
        wire.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(LONGEST).collect();
    if !names::is_name(&name) {
        name = format!("{kind}_{name}");
    }
    let means_something = names::is_symbol(&name) || names::is_stage(&name) || names::is_word(&name);
    if means_something { format!("{name}_{kind}") } else { name }
}

/// `search_notes`, `search-notes` and `searchNotes` are `SearchNotes`.
pub(super) fn pascal(wire: &str) -> String {
    let mut name = String::new();
    let mut begins = true;
    for c in wire.chars().take(LONGEST) {
        if !c.is_ascii_alphanumeric() {
            begins = true;
        } else if begins {
            name.push(c.to_ascii_uppercase());
            begins = false;
        } else {
            name.push(c);
        }
    }
    if names::is_name(&name) { name } else { format!("Entity{name}") }
}

/// `notes` is `note`, `entries` is `entry`.
pub(super) fn singular(name: &str) -> String {
    match name {
        _ if name.ends_with("ss") || name.len() < 4 => name.to_owned(),
        _ if name.ends_with("ies") => format!("{}y", &name[..name.len() - 3]),
        _ if ["sses", "xes", "ches", "shes"].iter().any(|end| name.ends_with(end)) => {
            name[..name.len() - 2].to_owned()
        }
        _ => name.strip_suffix('s').unwrap_or(name).to_owned(),
    }
}

/// The id of a catalog.
pub fn api(wire: &str) -> String {
    let name: String = wire
        .to_ascii_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' })
        .collect();
    let first = name.find(|c: char| c.is_ascii_lowercase()).map(|at| &name[at..]);
    first.unwrap_or("api").chars().take(40).collect()
}

/// One line of prose, without what YAML or a table could not show.
pub(super) fn prose(text: &str, longest: usize) -> Option<String> {
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    let short: String =
        line.chars().filter(|c| !matches!(c, '\u{feff}' | '\u{2028}' | '\u{2029}')).take(longest).collect();
    (!short.is_empty()).then_some(short)
}
