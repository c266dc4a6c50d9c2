//! What is given of a root: its rows as lists of cells, with what its columns hold.

use serde_json::Value as Json;

use super::{
    ColumnShown, Covered, Cursor, ReadFrom, RootRows, Shown,
    asks::Asks,
    table::{Output, Table, View},
};
use crate::execute::{fault::Fault, plan::Root};

/// `Err`: with it, the results would be too large. The same rows may be many roots, and each has a copy.
pub(super) fn root(root: usize, of: &Root, output: &Output, asks: &Asks) -> Result<RootRows, Fault> {
    asks.copies(|most| match output {
        Output::Text(text) => text.len(),
        Output::Table(table) => table.weight(most),
    })?;
    let rows = RootRows {
        root,
        label: of.label.clone(),
        node: of.node,
        result: Shown::Text(String::new()),
        coverage: Covered::Complete,
        next: None,
        lossy: Vec::new(),
    };
    Ok(match output {
        Output::Text(text) => RootRows { result: Shown::Text(text.clone()), ..rows },
        Output::Table(table) => RootRows {
            result: shown(table),
            coverage: table.covered,
            next: table
                .next
                .clone()
                .map(|(node, place)| Cursor { roots: vec![root], read: Some(ReadFrom { node, place }) }),
            lossy: lossy(table),
            ..rows
        },
    })
}

fn shown(table: &Table) -> Shown {
    let column = |view: &View| ColumnShown { name: view.name.clone(), holds: view.ty.name().to_owned() };
    let row =
        |row: &u32| table.views.iter().map(|view| table.cell(view, *row).clone()).collect::<Vec<Json>>();
    Shown::Rows {
        columns: table.views.iter().map(column).collect(),
        rows: table.order.iter().map(row).collect(),
    }
}

fn lossy(table: &Table) -> Vec<String> {
    let of_column = |view: &&View| {
        table.rows.columns.get(view.column).is_some_and(|column| table.rows.lossy.contains(&column.name))
    };
    table.views.iter().filter(of_column).map(|view| view.name.clone()).collect()
}
