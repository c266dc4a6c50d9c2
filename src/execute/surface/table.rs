//! Rows as text: tab-separated, one line a row whatever stands in them. A run's reply shows some of them, within bounds;
//! what is stored is shown whole.

use serde_json::Value as Json;

use crate::execute::run::{ColumnShown, RootRows, Shown};

/// Most rows of one root.
const ROWS: usize = 25;
/// Most bytes of all tables of a reply.
const BYTES: usize = 12 << 10;
/// Longest cell, in characters; what is longer is read in the artifact.
const LONGEST: usize = 400;
/// What columns of bytes hold.
const BINARY: &str = "bytes";
const IN_ARTIFACT: &str = "(in artifact)";
const NOT_SHOWN: &str = "(too long to show)";

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
    /// Of a text: what of it is shown.
    pub(super) plain: Option<String>,
    /// The rows that are not.
    pub(super) omitted: usize,
    /// Whether anything of it is not shown: rows, a cell, or the end of a text.
    pub(super) cut: bool,
}

/// `stored`: whether the whole of it can be read elsewhere.
pub(super) fn inline(root: &RootRows, stored: bool, room: &mut Room) -> Inline {
    let label = safe(&root.label);
    let (columns, rows) = match &root.result {
        Shown::Text(text) => {
            let shown = within(text, room.0);
            room.0 -= shown.len();
            let cut = shown.len() < text.len();
            let end = if cut { "\n(cut: the text is longer)" } else { "" };
            let plain = Some(shown.to_owned());
            let text = format!("## {label} (text)\n{shown}{end}\n");
            return Inline { text, rows: 1, values: Vec::new(), plain, omitted: 0, cut };
        }
        Shown::Rows { columns, rows } => (columns, rows),
    };
    let plural = if rows.len() == 1 { "row" } else { "rows" };
    let mut text = format!("## {label} ({} {plural})\n{}", rows.len(), head(columns));
    let (mut values, mut cut) = (Vec::new(), false);
    for row in rows.iter().take(ROWS) {
        let short: Vec<Json> =
            row.iter().enumerate().map(|(at, value)| shortened(value, columns.get(at), stored)).collect();
        let line = line(&short);
        if line.len() > room.0 {
            break;
        }
        room.0 -= line.len();
        cut |= short != *row;
        text += &line;
        values.push(short);
    }
    let omitted = rows.len() - values.len();
    Inline { text, rows: rows.len(), values, plain: None, omitted, cut: cut || omitted > 0 }
}

/// The names of the columns, as a line.
pub(super) fn head(columns: &[ColumnShown]) -> String {
    let names: Vec<String> = columns.iter().map(|column| safe(&column.name)).collect();
    names.join("\t") + "\n"
}

/// A row, as a line. It is never empty, and never looks like the beginning of another table: what stands between two empty
/// lines, or after `## `, is ours.
pub(super) fn line(row: &[Json]) -> String {
    let mut line = row.iter().map(cell).collect::<Vec<_>>().join("\t");
    if line.is_empty() {
        line.push_str(if row == [Json::Null] { "\\N" } else { "\"\"" });
    }
    if line.starts_with('#') {
        line.insert(0, '\\');
    }
    line.push('\n');
    line
}

/// A cell, or where to read it.
fn shortened(value: &Json, column: Option<&ColumnShown>, stored: bool) -> Json {
    let long = match value {
        Json::String(_) if column.is_some_and(|column| column.holds == BINARY) => true,
        Json::String(text) => text.chars().nth(LONGEST).is_some(),
        Json::Array(_) | Json::Object(_) => value.to_string().chars().nth(LONGEST).is_some(),
        _ => false,
    };
    match long {
        false => value.clone(),
        true => (if stored { IN_ARTIFACT } else { NOT_SHOWN }).into(),
    }
}

/// One cell: null as nothing.
fn cell(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => safe(text),
        other => other.to_string(),
    }
}

/// Text that breaks no line and no column, by whatever a reader takes for the end of a line; with a backslash, as in JSON.
pub(super) fn safe(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => safe.push_str("\\\\"),
            '\t' => safe.push_str("\\t"),
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
                safe.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => safe.push(c),
        }
    }
    safe
}

/// The beginning of a text, at most so many bytes.
fn within(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_is_one_line_whatever_stands_in_it() {
        for (row, want) in [
            (json!(["a\tb", "c\nd\r\\"]), "a\\tb\tc\\nd\\r\\\\\n"),
            (json!(["## rows (3 rows)"]), "\\## rows (3 rows)\n"),
            (json!([null]), "\\N\n"),
            (json!([""]), "\"\"\n"),
            (json!([null, 1]), "\t1\n"),
            (json!(["a\u{b}\u{85}\u{2028}\u{1b}[2Jb"]), "a\\u000b\\u0085\\u2028\\u001b[2Jb\n"),
            (json!([{"k": "v\n"}, [1, true]]), "{\"k\":\"v\\n\"}\t[1,true]\n"),
        ] {
            assert_eq!(line(row.as_array().unwrap()), want);
        }
    }
}
