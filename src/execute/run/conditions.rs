//! The conditions that a source does not carry out. A comparison with null is neither true nor false, and so is its negation:
//! a row stays only if its conditions are true.

use std::cmp::Ordering;

use serde_json::Value as Json;

use super::{
    Ran,
    compare::compared,
    table::{Type, View},
    values::{Inputs, broken, value},
};
use crate::execute::catalog::{Base, Op};

#[derive(Clone, Debug)]
pub(super) enum Test {
    Or(Vec<Test>),
    And(Vec<Test>),
    Not(Box<Test>),
    Null { view: Option<View>, negated: bool },
    Compare { view: Option<View>, op: Op, value: Json, folded: String },
}

/// All of a step's conditions. `find`: the column that a path names.
pub(super) fn tests(
    conditions: &[Json],
    inputs: &Inputs,
    find: &dyn Fn(&[String]) -> Option<View>,
) -> Ran<Test> {
    conditions.iter().map(|one| test(one, inputs, find)).collect::<Ran<_>>().map(Test::And)
}

fn test(condition: &Json, inputs: &Inputs, find: &dyn Fn(&[String]) -> Option<View>) -> Ran<Test> {
    let all = |all: &Json| -> Ran<Vec<Test>> {
        all.as_array().into_iter().flatten().map(|one| test(one, inputs, find)).collect()
    };
    if let Some(any) = condition.get("or") {
        return all(any).map(Test::Or);
    }
    if let Some(every) = condition.get("and") {
        return all(every).map(Test::And);
    }
    if let Some(inside) = condition.get("not") {
        return Ok(Test::Not(Box::new(test(inside, inputs, find)?)));
    }
    let path: Vec<String> = condition["column"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Json::as_str)
        .map(str::to_owned)
        .collect();
    let view = find(&path);
    if let Some(is) = condition["is"].as_str() {
        return Ok(Test::Null { view, negated: is == "not null" });
    }
    let op = condition["op"].as_str();
    let Some(op) = OPS.into_iter().find(|have| Some(have.text()) == op) else {
        return Err(broken("a condition has no operator").into());
    };
    let mut value = value(&condition["value"], inputs, None)?;
    // A day is compared with the day of an instant.
    if let Some(Type::Base(Base::Date)) = view.as_ref().map(|view| &view.ty) {
        value = match value {
            Json::Array(days) => days.into_iter().map(day).collect(),
            one => day(one),
        };
    }
    let folded = value.as_str().unwrap_or_default().to_lowercase();
    Ok(Test::Compare { view, op, value, folded })
}

/// What a column holds that did not come.
const ANYTHING: Type = Type::Base(Base::Json);

const OPS: [Op; 8] = [Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge, Op::Has, Op::In];

fn day(value: Json) -> Json {
    match &value {
        Json::String(text) => text.get(..10).map_or_else(|| value.clone(), Json::from),
        _ => value,
    }
}

impl Test {
    /// Whether it looks at one of these columns.
    pub fn looks_at(&self, columns: &[String]) -> bool {
        match self {
            Test::Or(all) | Test::And(all) => all.iter().any(|one| one.looks_at(columns)),
            Test::Not(inside) => inside.looks_at(columns),
            Test::Null { view, .. } | Test::Compare { view, .. } => {
                view.as_ref().is_some_and(|view| columns.contains(&view.name))
            }
        }
    }

    /// Whether a row's values make it true; `cell` gives what a view has in the row.
    pub fn holds<'j>(&self, cell: &impl Fn(&View) -> &'j Json) -> bool {
        self.judge(cell) == Some(true)
    }

    fn judge<'j>(&self, cell: &impl Fn(&View) -> &'j Json) -> Option<bool> {
        let of = |view: &Option<View>| view.as_ref().map_or(&Json::Null, cell);
        match self {
            Test::Or(any) => decided(any, true, cell),
            Test::And(all) => decided(all, false, cell),
            Test::Not(inside) => inside.judge(cell).map(|holds| !holds),
            Test::Null { view, negated } => Some(of(view).is_null() != *negated),
            Test::Compare { view, op, value, folded } => {
                let ty = view.as_ref().map_or(&ANYTHING, |view| &view.ty);
                compare(of(view), *op, value, folded, ty)
            }
        }
    }
}

/// One that is `by` decides; else it is the other, if all are known.
fn decided<'j>(tests: &[Test], by: bool, cell: &impl Fn(&View) -> &'j Json) -> Option<bool> {
    let mut known = true;
    for test in tests {
        match test.judge(cell) {
            Some(holds) if holds == by => return Some(by),
            Some(_) => {}
            None => known = false,
        }
    }
    known.then_some(!by)
}

fn compare(cell: &Json, op: Op, value: &Json, folded: &str, ty: &Type) -> Option<bool> {
    if cell.is_null() || value.is_null() {
        return None;
    }
    let order = || compared(cell, value, ty);
    match op {
        // Values of two kinds are not equal, though neither is the greater.
        Op::Eq => Some(order() == Some(Ordering::Equal)),
        Op::Ne => Some(order() != Some(Ordering::Equal)),
        Op::Lt => order().map(Ordering::is_lt),
        Op::Le => order().map(Ordering::is_le),
        Op::Gt => order().map(Ordering::is_gt),
        Op::Ge => order().map(Ordering::is_ge),
        Op::Has => match cell {
            Json::String(text) => Some(text.to_lowercase().contains(folded)),
            Json::Array(items) => {
                Some(items.iter().any(|item| compared(item, value, ty) == Some(Ordering::Equal)))
            }
            _ => None,
        },
        Op::In => {
            let members = value.as_array().map(Vec::as_slice).unwrap_or_default();
            Some(members.iter().any(|member| compared(cell, member, ty) == Some(Ordering::Equal)))
        }
    }
}
