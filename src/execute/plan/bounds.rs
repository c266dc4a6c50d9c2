//! How much a plan costs at most: which fields have to be fetched row by row, how many rows come out of each node and how many
//! requests are made for them, and what a person should look at.

use std::collections::BTreeSet;

use super::{build::Uses, *};
use crate::execute::catalog::{Catalog, Kind, Operation, Pages};

/// Fills in `fetched`, `bounds`, the effects' calls, warnings and the verdict.
pub(super) fn settle(plan: &mut Plan, uses: &[Uses], scope: &Scope) {
    let needed = needed(plan, uses);
    let shown = shown(plan);
    for (id, uses) in uses.iter().enumerate() {
        let catalog = uses.entity.map(|entity| scope.catalog(entity));
        if let Some(catalog) = catalog {
            fetched(plan, id, catalog, &needed[id], shown[id]);
        }
        plan.nodes[id].bounds = bounds(plan, id, uses, catalog);
    }
    for effect in &mut plan.effects {
        effect.calls = plan.nodes[effect.node].bounds.rows;
    }
    plan.requests = plan.nodes.iter().map(|node| node.bounds.requests).fold(0, u64::saturating_add);
    for (id, uses) in uses.iter().enumerate() {
        judge(plan, id, uses.entity.map(|entity| scope.catalog(entity)));
    }
}

/// The columns of each node that something after it looks at.
fn needed(plan: &Plan, uses: &[Uses]) -> Vec<BTreeSet<String>> {
    let mut needed: Vec<BTreeSet<String>> = vec![BTreeSet::new(); plan.nodes.len()];
    // What a hop goes along stands in the entity's own row, whatever columns were kept of it.
    let mut along: Vec<BTreeSet<String>> = vec![BTreeSet::new(); plan.nodes.len()];
    for root in &plan.roots {
        let node = &plan.nodes[root.node];
        // One row that is shown is shown whole; of many only what comes with them, unless columns are named.
        if node.card == Card::One && node.op != Op::Call {
            needed[root.node].extend(node.cols.iter().cloned());
        }
    }
    for node in plan.nodes.iter().rev() {
        let passes = matches!(
            node.op,
            Op::Filter | Op::Sort | Op::Limit | Op::PageSize | Op::Distinct | Op::Singleton
        );
        let mut wanted = uses[node.id].columns.clone();
        if passes {
            wanted.extend(needed[node.id].iter().cloned());
        }
        let own = matches!(node.op, Op::Query | Op::Search | Op::Get | Op::Identity);
        let behind = std::mem::take(&mut along[node.id]);
        match node.inputs.first().filter(|_| !own) {
            Some(input) if passes || node.op == Op::Columns => {
                needed[*input].extend(wanted);
                along[*input].extend(behind);
            }
            Some(input) if node.op == Op::Hop => {
                along[*input].extend(wanted);
                needed[node.id].extend(behind);
            }
            input => {
                needed[node.id].extend(behind);
                input.into_iter().for_each(|input| needed[*input].extend(wanted.iter().cloned()));
            }
        }
        if own || node.op == Op::Hop {
            // What a read's conditions look at stands in its own rows.
            needed[node.id].extend(residual_columns(node));
        }
        for (input, column) in uses[node.id].values.iter().filter(|(_, column)| !column.is_empty()) {
            needed[*input].insert(column.clone());
        }
    }
    needed
}

/// Whose rows are seen in a result: a row that is not there must be found missing, whatever is looked at of it.
fn shown(plan: &Plan) -> Vec<bool> {
    let mut shown = vec![false; plan.nodes.len()];
    plan.roots.iter().for_each(|root| shown[root.node] = true);
    let passes_on = |node: &&Node| {
        matches!(
            node.op,
            Op::Filter
                | Op::Sort
                | Op::Limit
                | Op::PageSize
                | Op::Distinct
                | Op::Singleton
                | Op::Columns
                | Op::Group
                | Op::Render
        )
    };
    for node in plan.nodes.iter().rev().filter(passes_on) {
        if let Some(input) = node.inputs.first().filter(|_| shown[node.id]) {
            shown[*input] = true;
        }
    }
    shown
}

/// The columns that the conditions of a node look at.
fn residual_columns(node: &Node) -> BTreeSet<String> {
    fn walk(condition: &Json, found: &mut BTreeSet<String>) {
        match condition {
            Json::Array(all) => all.iter().for_each(|one| walk(one, found)),
            Json::Object(map) => {
                if let Some(column) = map.get("column").and_then(|column| column[0].as_str()) {
                    found.insert(column.to_owned());
                }
                for key in ["or", "and", "not"] {
                    map.get(key).into_iter().for_each(|inside| walk(inside, found));
                }
            }
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    node.residual.iter().for_each(|condition| walk(condition, &mut found));
    found
}

fn operation<'c>(node: &Node, catalog: &'c Catalog) -> Option<&'c Operation> {
    node.operation.as_ref().and_then(|id| catalog.operations.get(id))
}

/// What is needed of a read's rows and does not come with them.
fn fetched(plan: &mut Plan, id: usize, catalog: &Catalog, needed: &BTreeSet<String>, shown: bool) {
    let node = &plan.nodes[id];
    let name = node.entity.clone().unwrap_or_default();
    let Some(entity) = catalog.entity(&name) else { return };
    let gets = catalog.operation(&name, Kind::Get).is_some();
    let comes = |column: &String| {
        let is_key = entity.key.contains(column);
        match node.op {
            Op::Query | Op::Search => {
                is_key || operation(node, catalog).is_none_or(|operation| operation.returns(column))
            }
            Op::Hop if node.operation.is_some() => {
                is_key || operation(node, catalog).is_none_or(|operation| operation.returns(column))
            }
            // Rows that stand in another's have their key, and the rest where nothing else could bring it.
            Op::Hop | Op::Identity => is_key || !gets,
            Op::Get => is_key,
            // What a call gives back is a row or not; what was taken away cannot be read again.
            Op::Call | Op::Each => {
                let comes = |operation: &Operation| {
                    operation.kind == Kind::Delete
                        || operation.locator().is_some() && operation.returns(column)
                };
                is_key || !gets || operation(node, catalog).is_none_or(comes)
            }
            _ => true,
        }
    };
    let missing: Vec<String> = needed.iter().filter(|column| !comes(column)).cloned().collect();
    let node = &mut plan.nodes[id];
    match (node.op, missing.is_empty()) {
        // A key that nothing more is asked of needs no request.
        (Op::Get, true) if !shown => node.op = Op::Identity,
        (Op::Get, _) => {}
        _ => node.fetched = missing,
    }
    if node.op == Op::Identity {
        node.operation = None;
    }
}

fn bounds(plan: &Plan, id: usize, uses: &Uses, catalog: Option<&Catalog>) -> Bounds {
    let node = &plan.nodes[id];
    let input = node.inputs.first().map_or(1, |input| plan.nodes[*input].bounds.rows);
    let rows = match node.op {
        Op::Text | Op::Render => return Bounds { rows: 0, requests: 0 },
        Op::Get | Op::Singleton => 1,
        Op::Identity => 1,
        Op::Query | Op::Search => MOST_ROWS,
        Op::Hop if node.card == Card::One => input,
        Op::Hop => match catalog.and_then(|catalog| operation(node, catalog)) {
            None if node.cols.is_empty() => input,
            _ => MOST_ROWS,
        },
        Op::Filter | Op::Sort | Op::PageSize | Op::Distinct | Op::Columns => input,
        Op::Limit => input.min(node.args.as_u64().unwrap_or(u64::MAX)),
        Op::Group if node.card == Card::One => 1,
        Op::Group => input,
        Op::Call => 1,
        Op::Each => input.min(MOST_WRITES),
    };
    let scanned = rows;
    let rows = uses.limit.map_or(rows, |limit| rows.min(limit));
    let asks = match node.op {
        Op::Get | Op::Call => 1,
        Op::Each => rows,
        Op::Query | Op::Search => {
            pages(if node.residual.is_empty() { rows } else { scanned }, uses, node, catalog)
        }
        Op::Hop if node.operation.is_some() => {
            let each = pages(if node.residual.is_empty() { rows } else { scanned }, uses, node, catalog);
            input.saturating_mul(each).min(MOST_PAGES.max(input))
        }
        _ => 0,
    };
    // A field that a condition looks at is fetched for every row that comes, any other for those that are left.
    let left = residual_columns(node);
    let gets = match node.fetched.iter().any(|column| left.contains(column)) {
        _ if node.fetched.is_empty() => 0,
        true => scanned,
        false => rows,
    };
    Bounds { rows, requests: asks.saturating_add(gets) }
}

/// The pages that hold so many rows.
fn pages(rows: u64, uses: &Uses, node: &Node, catalog: Option<&Catalog>) -> u64 {
    let paged = catalog.and_then(|catalog| operation(node, catalog));
    if paged.is_none_or(|operation| operation.pages == Pages::None) {
        return 1;
    }
    // A page of unknown size has one row at least.
    rows.div_ceil(uses.page.unwrap_or(1).max(1)).clamp(1, MOST_PAGES)
}

fn judge(plan: &mut Plan, id: usize, catalog: Option<&Catalog>) {
    let node = &plan.nodes[id];
    let name = node.entity.clone().unwrap_or_default();
    let mut said = Vec::new();
    let columns = node.fetched.join(", ");
    if !node.fetched.is_empty() {
        let gets = catalog.is_some_and(|catalog| catalog.operation(&name, Kind::Get).is_some());
        let rows = node.bounds.rows.max(if node.residual.is_empty() {
            0
        } else {
            node.bounds.requests.min(MOST_ROWS)
        });
        if !gets {
            said.push((Verdict::Blocked, format!("n{id}: nothing returns {columns} of {name}")));
        } else if rows > MOST_FETCHED {
            let message = format!(
                "n{id}: {columns} of {name} is fetched with one request a row, for up to {rows} rows; limit the rows first"
            );
            said.push((Verdict::Review, message));
        }
    }
    match (node.op, node.effect) {
        (Op::Each, _) => {
            let input = plan.nodes[node.inputs[0]].bounds.rows;
            if input > MOST_WRITES {
                let message = format!(
                    "n{id}: at most {MOST_WRITES} rows are written, and there may be more; add | limit({MOST_WRITES})"
                );
                said.push((Verdict::Review, message));
            }
        }
        (Op::Group, _) => {
            if let Some(partial) = partial_read(plan, id) {
                let message = format!(
                    "n{id}: it wants all rows, and n{partial} never brings all there are; say how many with | limit(n)"
                );
                said.push((Verdict::Blocked, message));
            }
        }
        _ => {}
    }
    if node.effect == Some(EffectClass::Destructive) {
        said.push((Verdict::Review, format!("n{id}: it takes {name} away for good")));
    }
    for (verdict, message) in said {
        plan.verdict = plan.verdict.max(verdict);
        plan.warnings.push(message);
    }
}

/// The read before a node that is known to leave out rows, if no limit stands between.
fn partial_read(plan: &Plan, id: usize) -> Option<usize> {
    let mut at = plan.nodes[id].inputs.first().copied();
    while let Some(node) = at.map(|at| &plan.nodes[at]) {
        match node.op {
            Op::Limit => return None,
            Op::Query | Op::Search | Op::Hop => return node.partial.then_some(node.id),
            _ => at = node.inputs.first().copied(),
        }
    }
    None
}
