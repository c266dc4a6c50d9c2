//! What is done with rows here: filters, orders, limits, columns. Each makes a view of the rows before it.

use std::{cmp::Ordering, collections::HashSet};

use serde_json::Value as Json;

use super::{
    Covered, Ran, Stop,
    compare::{mark, ordered},
    conditions,
    table::{Table, Type, View},
    values::{Inputs, broken},
};
use crate::execute::{
    catalog::Base,
    fault::Fault,
    instant::Instant,
    plan::{Node, Op},
};

/// Carries out a stage. `Late` where it needs all rows and there was no time for all.
pub(super) fn stage(node: &Node, inputs: &Inputs) -> Ran<Table> {
    let mut table = inputs.table()?.clone();
    let passes = matches!(node.op, Op::Filter | Op::Limit | Op::PageSize | Op::Columns);
    if table.late && !passes {
        return Err(Stop::Late);
    }
    match node.op {
        Op::Filter => filter(node, inputs, &mut table)?,
        Op::Sort => sort(&node.args, &mut table),
        Op::Limit => limit(node.args.as_u64().unwrap_or(u64::MAX), &mut table),
        Op::PageSize => {}
        Op::Distinct => distinct(&node.args, &mut table),
        Op::Singleton => singleton(&mut table)?,
        Op::Columns => columns(&node.args, &mut table),
        _ => return Err(broken("a step is no stage").into()),
    }
    Ok(table)
}

/// A list of strings.
pub(super) fn path(json: &Json) -> Vec<String> {
    json.as_array().into_iter().flatten().filter_map(Json::as_str).map(str::to_owned).collect()
}

fn filter(node: &Node, inputs: &Inputs, table: &mut Table) -> Ran<()> {
    let test = conditions::tests(&node.residual, inputs, &|path| table.find(path))?;
    let mut order = std::mem::take(&mut table.order);
    order.retain(|row| test.holds(&|view: &View| table.cell(view, *row)));
    table.order = order;
    Ok(())
}

fn sort(orders: &Json, table: &mut Table) {
    let orders: Vec<(View, bool)> = orders
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|order| Some((table.find(&path(&order["by"]))?, order["desc"] == true)))
        .collect();
    let keys = |row: u32| -> Vec<SortKey> {
        orders.iter().map(|(view, _)| SortKey::of(table.cell(view, row), &view.ty)).collect()
    };
    let mut rows: Vec<(Vec<SortKey>, u32)> = table.order.iter().map(|row| (keys(*row), *row)).collect();
    rows.sort_by(|(a, _), (b, _)| {
        let by =
            orders.iter().zip(a.iter().zip(b)).map(|((view, desc), (a, b))| a.compared(b, &view.ty, *desc));
        by.into_iter().find(|by| by.is_ne()).unwrap_or(Ordering::Equal)
    });
    let order = rows.into_iter().map(|(_, row)| row).collect();
    table.order = order;
}

/// What a row is sorted by: instants are read once.
enum SortKey<'j> {
    Time(Instant),
    Value(&'j Json),
}

impl SortKey<'_> {
    fn of<'j>(cell: &'j Json, ty: &Type) -> SortKey<'j> {
        let time = match (ty, cell) {
            (Type::Base(Base::Datetime | Base::Date), Json::String(text)) => Instant::parse(text),
            _ => None,
        };
        time.map_or(SortKey::Value(cell), SortKey::Time)
    }

    fn compared(&self, other: &SortKey, ty: &Type, desc: bool) -> Ordering {
        let order = match (self, other) {
            // What has no value comes last, in either direction.
            (SortKey::Value(a), SortKey::Value(b)) if a.is_null() || b.is_null() => {
                return a.is_null().cmp(&b.is_null());
            }
            (SortKey::Time(_), SortKey::Value(_)) => return Ordering::Less,
            (SortKey::Value(_), SortKey::Time(_)) => return Ordering::Greater,
            (SortKey::Time(a), SortKey::Time(b)) => a.cmp(b),
            (SortKey::Value(a), SortKey::Value(b)) => ordered(a, b, ty),
        };
        if desc { order.reverse() } else { order }
    }
}

fn limit(most: u64, table: &mut Table) {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if table.order.len() > most {
        table.order.truncate(most);
        table.covered = Covered::Partial;
        table.next = None;
    }
    // Rows that there was no time for are not what the program left out.
    table.late &= table.order.len() < most;
    table.lacking &= table.late;
}

fn distinct(columns: &Json, table: &mut Table) {
    let named: Vec<View> =
        columns.as_array().into_iter().flatten().filter_map(|column| table.find(&path(column))).collect();
    let views = if named.is_empty() { table.views.clone() } else { named };
    let mut seen: HashSet<Vec<u8>> = HashSet::with_capacity(table.order.len());
    let mut order = std::mem::take(&mut table.order);
    order.retain(|row| {
        let mut marks = Vec::new();
        views.iter().for_each(|view| mark(table.cell(view, *row), &mut marks));
        seen.insert(marks)
    });
    table.order = order;
    table.next = None;
}

fn singleton(table: &mut Table) -> Ran<()> {
    let hint = "filter until one is left, or name it by its key";
    match table.order.len() {
        0 => Err(Fault::new("not_one", "singleton() needs one row, and there is none", hint).into()),
        1 if table.lacking => {
            let message = "singleton() needs one row, and there may be more than the source gave";
            Err(Fault::new("partial_coverage", message, hint).into())
        }
        1 => {
            table.next = None;
            Ok(())
        }
        many => {
            Err(Fault::new("not_one", format!("singleton() needs one row, and there are {many}"), hint)
                .into())
        }
    }
}

fn columns(columns: &Json, table: &mut Table) {
    // A column that did not come has no value anywhere.
    let none = View { name: String::new(), column: usize::MAX, path: Vec::new(), ty: Type::Base(Base::Json) };
    let kept = columns.as_array().into_iter().flatten().map(|column| View {
        name: column["as"].as_str().unwrap_or_default().to_owned(),
        ..table.find(&path(&column["of"])).unwrap_or_else(|| none.clone())
    });
    table.views = kept.collect();
}
