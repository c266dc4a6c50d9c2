//! Text from rows, by a template that can reach nothing but them: no files, no other templates, a bound on its steps and on
//! what it writes.

use std::io;

use minijinja::{ErrorKind, Value, value::Serde};
use serde_json::{Map, Value as Json};

use super::{
    Ran, Stop,
    table::{Table, View},
};
use crate::execute::{
    fault::Fault,
    template::{self, FUEL, MOST_TEXT},
};

const HINT: &str = "a template sees rows, a list of objects by column";

/// About how many bytes the rows take as a template sees them: each has the names of its columns anew.
pub(super) fn weight(table: &Table, most: usize) -> usize {
    let names = table.views.iter().map(|view| view.name.len() + size_of::<String>()).sum::<usize>();
    match names.saturating_mul(table.order.len()) {
        names if names > most => names,
        names => names + table.weight(most - names),
    }
}

/// What a template makes of `rows`.
pub(super) fn render(source: &str, table: &Table) -> Ran<String> {
    if table.late {
        return Err(Stop::Late);
    }
    let rows: Vec<Value> = table
        .order
        .iter()
        .map(|row| {
            let cell = |view: &View| (view.name.clone(), table.cell(view, *row).clone());
            Value::from(Serde(table.views.iter().map(cell).collect::<Map<String, Json>>()))
        })
        .collect();
    if let Some((line, why)) = template::refused(source) {
        return Err(Fault::new("template", format!("line {line} of the template: {why}"), HINT).into());
    }
    let environment = template::environment();
    let failed = |error: &minijinja::Error| {
        let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
        let line = error.line().map(|line| format!(" in its line {line}")).unwrap_or_default();
        let (code, message) = match error.kind() {
            ErrorKind::OutOfFuel => {
                ("too_large", format!("the template takes more than {FUEL} steps; limit the rows"))
            }
            ErrorKind::WriteFailure => {
                ("too_large", format!("the template writes more than {MOST_TEXT} bytes; limit the rows"))
            }
            _ => ("template", format!("the template failed{line}: {what}")),
        };
        Stop::from(Fault::new(code, message, HINT))
    };
    let mut text = Bounded(Vec::new());
    let template = environment.template_from_str(source).map_err(|error| failed(&error))?;
    let context = Value::from_pairs([("rows", Value::from(rows))]);
    template.render_captured_to(context, &mut text).map_err(|error| failed(&error))?;
    Ok(String::from_utf8_lossy(&text.0).into_owned())
}

struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MOST_TEXT {
            return Err(io::Error::other("too long"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
