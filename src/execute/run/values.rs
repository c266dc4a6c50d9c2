//! The values of a plan, resolved as it runs: fixed ones, those of other steps, and those of the row at hand.

use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::{
    Ran,
    table::{Output, Table, identity},
};
use crate::execute::fault::Fault;

/// The outputs of the steps that a step takes, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Inputs(pub Vec<(usize, Arc<Output>)>);

impl Inputs {
    pub fn get(&self, node: usize) -> Option<&Output> {
        self.0.iter().find(|(have, _)| *have == node).map(|(_, output)| &**output)
    }

    /// The rows that a step works on: those of its first input.
    pub fn table(&self) -> Ran<&Table> {
        match self.0.first().map(|(_, output)| &**output) {
            Some(Output::Table(table)) => Ok(table),
            _ => Err(broken("a step has no rows").into()),
        }
    }
}

/// A plan that does not fit its own catalogs: it was made from others.
pub(super) fn broken(message: &str) -> Fault {
    Fault::new("plan_changed", message, "plan the program again")
}

/// The value of what a plan gives. `row`: the row at hand.
pub(super) fn value(given: &Json, inputs: &Inputs, row: Option<(&Table, u32)>) -> Ran<Json> {
    let Json::Object(map) = given else { return Err(broken("a value has no form").into()) };
    let Some((kind, inside)) = map.iter().find(|(key, _)| *key != "path") else {
        return Err(broken("a value has no form").into());
    };
    let path = |path: &Json| -> Vec<String> {
        path.as_array().into_iter().flatten().filter_map(Json::as_str).map(str::to_owned).collect()
    };
    match (kind.as_str(), inside) {
        ("json", value) => Ok(value.clone()),
        ("list", Json::Array(items)) => {
            items.iter().map(|item| value(item, inputs, row)).collect::<Ran<Vec<_>>>().map(Json::Array)
        }
        ("object", Json::Object(entries)) => named(entries, inputs, row).map(Json::Object),
        ("identity", of) => match &of["key"] {
            Json::Object(key) => named(key, inputs, row).map(identity),
            _ => Ok(Json::Null),
        },
        ("row", inside) => match row {
            Some((table, row)) => Ok(of_row(table, row, &path(inside))),
            None => Err(broken("there is no row at hand").into()),
        },
        ("node", node) => {
            let node = node.as_u64().and_then(|node| usize::try_from(node).ok());
            match node.and_then(|node| inputs.get(node)) {
                Some(Output::Text(text)) => Ok(Json::from(text.as_str())),
                Some(Output::Table(table)) => Ok(of_row(table, table.one()?, &path(&given["path"]))),
                None => Err(broken("a value is of a step that is not there").into()),
            }
        }
        _ => Err(broken("a value has no form").into()),
    }
}

pub(super) fn named(
    given: &Map<String, Json>,
    inputs: &Inputs,
    row: Option<(&Table, u32)>,
) -> Ran<Map<String, Json>> {
    given.iter().map(|(name, given)| Ok((name.clone(), value(given, inputs, row)?))).collect()
}

/// A field of a row by its path; without one: its identity.
fn of_row(table: &Table, row: u32, path: &[String]) -> Json {
    if path.is_empty() {
        return identity(table.rows.key(row as usize));
    }
    table.find(path).map_or(Json::Null, |view| table.cell(&view, row).clone())
}
