//! Rows as a reply shows them: tab-separated, bounded in rows, bytes and the length of a cell.

use serde_json::Value as Json;

use crate::execute::run::{RootRows, Shown};

/// Most rows of one root.
const ROWS: usize = 25;
/// Most bytes of all tables of a reply.
const BYTES: usize = 12 << 10;
/// Longest cell, in characters, and what of a longer one is shown.
const LONGEST: usize = 400;
const BEGINNING: usize = 200;

/// What is left of a reply's room for tables.
pub(super) struct Room(usize);

impl Default for Room {
    fn default() -> Room {
        Room(BYTES)
    }
}

/// A root as it is shown.
pub(super) struct Inline {
    pub(super) text: String,
    /// All rows of it.
    pub(super) rows: usize,
    /// The rows that are shown.
    pub(super) values: Vec<Vec<Json>>,
    /// The rows that are not.
    pub(super) omitted: usize,
}

pub(super) fn inline(root: &RootRows, room: &mut Room) -> Inline {
    let RootRows { label, coverage, .. } = root;
    let (columns, rows) = match &root.result {
        Shown::Text(text) => {
            let shown = within(text, room.0);
            room.0 -= shown.len();
            let cut = if shown.len() < text.len() { "\n(cut: the text is longer)" } else { "" };
            let text = format!("## {label} (text)\n{shown}{cut}\n");
            return Inline { text, rows: 1, values: Vec::new(), omitted: 0 };
        }
        Shown::Rows { columns, rows } => (columns, rows),
    };
    let plural = if rows.len() == 1 { "row" } else { "rows" };
    let mut text = format!("## {label} ({} {plural})\n", rows.len());
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    text += &names.join("\t");
    text.push('\n');
    let mut values = Vec::new();
    for row in rows.iter().take(ROWS) {
        let row: Vec<Json> = row.iter().map(shortened).collect();
        let line = row.iter().map(cell).collect::<Vec<_>>().join("\t");
        if line.len() >= room.0 {
            break;
        }
        room.0 -= line.len() + 1;
        text += &line;
        text.push('\n');
        values.push(row);
    }
    let omitted = rows.len() - values.len();
    if omitted > 0 {
        text += &format!(
            "({omitted} more rows are not shown: name fewer columns, filter, or count and group them in the program)\n"
        );
    }
    text += &format!("coverage: {coverage}\n");
    Inline { text, rows: rows.len(), values, omitted }
}

/// A cell with what is too long cut, and said so.
fn shortened(value: &Json) -> Json {
    let text = match value {
        Json::String(text) => text.clone(),
        Json::Array(_) | Json::Object(_) => value.to_string(),
        other => return other.clone(),
    };
    let long = text.chars().count();
    if long <= LONGEST {
        return value.clone();
    }
    let beginning: String = text.chars().take(BEGINNING).collect();
    Json::String(format!("{beginning}… ({long} characters)"))
}

/// One cell: null as nothing, text with what would break the table written as escapes.
fn cell(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => {
            text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
        }
        other => other.to_string(),
    }
}

/// The beginning of a text, at most so many bytes.
fn within(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    &text[..end]
}
