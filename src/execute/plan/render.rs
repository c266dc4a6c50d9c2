//! A plan as people and agents read it: a line a node, every write, the most requests, the verdict.

use std::fmt::Write as _;

use super::*;

/// One line a node, then the writes, the warnings and the verdict.
pub fn lines(plan: &Plan) -> String {
    let mut text = String::new();
    for node in &plan.nodes {
        let op = serde_json::to_value(node.op)
            .ok()
            .and_then(|op| op.as_str().map(str::to_owned))
            .unwrap_or_default();
        let _ = write!(text, "n{} {op}", node.id);
        if let (Some(api), Some(entity)) = (&node.api, &node.entity) {
            let _ = write!(text, " {api}::{entity}");
        }
        if let Some(operation) = &node.operation {
            let _ = write!(text, " by {operation}");
        }
        let inputs: Vec<String> = node.inputs.iter().map(|input| format!("n{input}")).collect();
        if !inputs.is_empty() {
            let _ = write!(text, " of {}", inputs.join(", "));
        }
        let after: Vec<String> = node.after.iter().map(|write| format!("n{write}")).collect();
        if !after.is_empty() {
            let _ = write!(text, " after {}", after.join(", "));
        }
        if !node.args.is_null() {
            let _ = write!(text, " {}", short(&node.args));
        }
        for (name, conditions) in [("upstream", &node.pushed), ("here", &node.residual)] {
            if !conditions.is_empty() {
                let shown: Vec<String> = conditions.iter().map(condition).collect();
                let _ = write!(text, "; {name}: {}", shown.join(" and "));
            }
        }
        if !node.fetched.is_empty() {
            let _ = write!(text, "; fetched one by one: {}", node.fetched.join(", "));
        }
        let Bounds { rows, requests } = node.bounds;
        let _ = match requests {
            0 => writeln!(text, "; rows ≤ {rows}"),
            _ => writeln!(text, "; rows ≤ {rows}, requests ≤ {requests}"),
        };
    }
    for effect in &plan.effects {
        let class = if effect.class == EffectClass::Destructive { "destroys" } else { "writes" };
        let Effect { node, api, entity, method, calls, .. } = effect;
        let _ = writeln!(text, "{class}: n{node} {api}::{entity}.{method}, calls ≤ {calls}");
    }
    for warning in &plan.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    let roots: Vec<String> =
        plan.roots.iter().map(|root| format!("n{} ({})", root.node, root.label)).collect();
    let verdict = match plan.verdict {
        Verdict::Ok => "ok",
        Verdict::Review => "review",
        Verdict::Blocked => "blocked",
    };
    let _ = writeln!(text, "roots: {}", roots.join(", "));
    let _ = writeln!(text, "requests ≤ {}; verdict: {verdict}", plan.requests);
    text
}

/// JSON on one line, cut where it is long.
fn short(value: &Json) -> String {
    let text = canonical::canonical(value);
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn condition(condition: &Json) -> String {
    let joined = |all: &Json, word: &str| {
        let all: Vec<String> = all.as_array().into_iter().flatten().map(self::condition).collect();
        format!("({})", all.join(word))
    };
    if let Some(any) = condition.get("or") {
        return joined(any, " or ");
    }
    if let Some(all) = condition.get("and") {
        return joined(all, " and ");
    }
    if let Some(inside) = condition.get("not") {
        return format!("not {}", self::condition(inside));
    }
    let column = match (&condition["arg"], &condition["column"]) {
        (Json::String(arg), _) => arg.clone(),
        (_, Json::Array(path)) => path.iter().filter_map(Json::as_str).collect::<Vec<_>>().join("."),
        _ => String::new(),
    };
    match (&condition["is"], &condition["op"]) {
        (Json::String(is), _) => format!("{column} is {is}"),
        (_, Json::String(op)) => format!("{column} {op} {}", value(&condition["value"])),
        _ => column,
    }
}

fn value(given: &Json) -> String {
    if let Some(json) = given.get("json") {
        return short(json);
    }
    if let Some(list) = given.get("list").and_then(Json::as_array) {
        return format!("[{}]", list.iter().map(value).collect::<Vec<_>>().join(", "));
    }
    if let Some(row) = given.get("row").and_then(Json::as_array) {
        let path: Vec<&str> = row.iter().filter_map(Json::as_str).collect();
        return ["_"].into_iter().chain(path).collect::<Vec<_>>().join(".");
    }
    if let Some(identity) = given.get("identity") {
        let key = identity["key"].as_object().into_iter().flatten().map(|(_, part)| value(part));
        return format!(
            "{}({})",
            identity["entity"].as_str().unwrap_or_default(),
            key.collect::<Vec<_>>().join(", ")
        );
    }
    if let Some(node) = given.get("node") {
        let path: Vec<&str> =
            given["path"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
        let node = format!("n{node}");
        return [node.as_str()].into_iter().chain(path).collect::<Vec<_>>().join(".");
    }
    short(given)
}
