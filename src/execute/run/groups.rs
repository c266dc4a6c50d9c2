//! Rows taken together: groups, counts, sums. They want the whole of their input, and say so where they did not get it.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use serde_json::{Number, Value as Json};

use super::{
    Ran, Stop,
    asks::Asks,
    compare::{mark, ordered},
    raw::size,
    stages::path,
    table::{Column, Of, Rows, Table, Type, View},
    values::{Inputs, broken},
};
use crate::execute::{catalog::Base, fault::Fault, plan::Node};

struct Aggregate {
    name: String,
    function: String,
    of: Option<View>,
}

/// One row a group, in the order in which each is first seen; without columns to group by, one row.
pub(super) fn group(node: &Node, inputs: &Inputs, asks: &Asks) -> Ran<Table> {
    let table = inputs.table()?;
    if table.late {
        return Err(Stop::Late);
    }
    if table.lacking {
        let message = "it wants all rows, and the source did not give all there are";
        let hint = "say how many rows it is over, with | limit(n) before it, or narrow the rows by a filter";
        return Err(Fault::new("partial_coverage", message, hint).into());
    }
    let by: Vec<(String, Option<View>)> = node.args["by"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|column| (path(column).join("."), table.find(&path(column))))
        .collect();
    let aggregates: Vec<Aggregate> = node.args["aggregates"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| Aggregate {
            name: one["name"].as_str().unwrap_or_default().to_owned(),
            function: one["function"].as_str().unwrap_or_default().to_owned(),
            of: (!one["of"].is_null()).then(|| table.find(&path(&one["of"]))).flatten(),
        })
        .collect();
    let groups = groups(table, &by);
    // The greatest text of a column may be asked for under any number of names.
    let column = |name: &String, ty: Type, cells: Vec<Json>| {
        asks.more(cells.iter().map(size).sum())?;
        Ok(Column { name: name.clone(), ty, cells })
    };
    let columns = node.cols.iter().map(|name| {
        if let Some((_, view)) = by.iter().find(|(have, _)| have == name) {
            let first = |rows: &Vec<u32>| match (view, rows.first()) {
                (Some(view), Some(row)) => table.cell(view, *row).clone(),
                _ => Json::Null,
            };
            let ty = view.as_ref().map_or(Type::Base(Base::Json), |view| view.ty.clone());
            return column(name, ty, groups.iter().map(first).collect());
        }
        let Some(one) = aggregates.iter().find(|one| one.name == *name) else {
            return Err(broken("a column of a group is none of its own").into());
        };
        let cells = groups.iter().map(|rows| aggregate(one, table, rows)).collect::<Ran<_>>()?;
        column(name, aggregate_type(one), cells)
    });
    let columns = columns.collect::<Ran<Vec<_>>>()?;
    // Identities among their columns are of that catalog still; the rows are of no entity.
    let of = table.rows.of.as_ref().map(|of| Of { catalog: Arc::clone(&of.catalog), entity: "".into() });
    let rows = Rows { of, columns, within: Vec::new(), len: groups.len(), lossy: BTreeSet::new() };
    let mut grouped = Table::of(rows);
    grouped.covered = table.covered;
    Ok(grouped)
}

fn groups(table: &Table, by: &[(String, Option<View>)]) -> Vec<Vec<u32>> {
    if by.is_empty() {
        return vec![table.order.clone()];
    }
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut groups: Vec<Vec<u32>> = Vec::new();
    for row in &table.order {
        let mut marks = Vec::new();
        for (_, view) in by {
            mark(view.as_ref().map_or(&Json::Null, |view| table.cell(view, *row)), &mut marks);
        }
        let place = *places.entry(marks).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[place].push(*row);
    }
    groups
}

fn aggregate_type(one: &Aggregate) -> Type {
    match (one.function.as_str(), &one.of) {
        ("count", _) => Type::Base(Base::Int),
        ("avg", _) => Type::Base(Base::Float),
        (_, Some(view)) => view.ty.clone(),
        _ => Type::Base(Base::Json),
    }
}

/// Null is no value: of none there is no sum, no average, no least and no greatest.
fn aggregate(one: &Aggregate, table: &Table, rows: &[u32]) -> Ran<Json> {
    if one.function == "count" {
        return Ok(Json::from(rows.len()));
    }
    let Some(view) = &one.of else { return Ok(Json::Null) };
    let values = || rows.iter().map(|row| table.cell(view, *row)).filter(|value| !value.is_null());
    match one.function.as_str() {
        "min" => Ok(values().min_by(|a, b| ordered(a, b, &view.ty)).cloned().unwrap_or_default()),
        "max" => Ok(values().max_by(|a, b| ordered(a, b, &view.ty)).cloned().unwrap_or_default()),
        function => {
            let numbers = values().map(|value| {
                value.as_number().ok_or_else(|| {
                    let message = format!("{function}({}) takes numbers, and there is {value}", view.name);
                    let hint = "filter the rows without a number away first";
                    Stop::Failed(Fault::new("type_mismatch", message, hint))
                })
            });
            let (mut whole, mut float, mut count) = (Some(0_i64), 0.0, 0_u64);
            for number in numbers {
                let number = number?;
                whole = whole.zip(number.as_i64()).and_then(|(sum, number)| sum.checked_add(number));
                float += number.as_f64().unwrap_or(0.0);
                count += 1;
            }
            Ok(match (function, whole) {
                _ if count == 0 => Json::Null,
                ("sum", Some(whole)) => Json::from(whole),
                ("sum", None) => Number::from_f64(float).map_or(Json::Null, Json::Number),
                _ => Number::from_f64(float / count as f64).map_or(Json::Null, Json::Number),
            })
        }
    }
}
