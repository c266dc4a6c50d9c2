//! Values and conditions as a plan has them: JSON that says where each value comes from, with instants fixed.

use super::{
    build::{Builder, Uses},
    *,
};
use crate::execute::{
    catalog::Operation,
    language::typed::{Condition, Given},
};

impl Builder<'_> {
    /// Gives a condition to the source where an argument takes it, else leaves it to be carried out here.
    pub(super) fn split(
        &self,
        condition: &Condition,
        operation: Option<&Operation>,
        node: &mut Node,
        uses: &mut Uses,
    ) {
        if let Condition::And(all) = condition {
            return all.iter().for_each(|one| self.split(one, operation, node, uses));
        }
        if let Condition::Compare { column, op, value, .. } = condition
            && let [name] = column.path.as_slice()
            && let Some(arg) = operation.and_then(|operation| operation.args.get(name))
            && arg.ops.contains(op)
            && !node.pushed.iter().any(|pushed| pushed["arg"] == json!(name))
        {
            node.pushed.push(json!({ "arg": name, "op": op.text(), "value": self.given(value, uses) }));
            return;
        }
        let left = self.condition(condition, uses);
        node.residual.push(left);
    }

    pub(super) fn named(&self, given: &[(String, Given)], uses: &mut Uses) -> Json {
        given
            .iter()
            .map(|(name, value)| (name.clone(), self.given(value, uses)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    /// A value as a plan has it: `{json: …}` or where it comes from. Instants are fixed here.
    pub(super) fn given(&self, given: &Given, uses: &mut Uses) -> Json {
        match given {
            Given::Json(value) => json!({ "json": value }),
            Given::List(items) => {
                json!({ "list": items.iter().map(|item| self.given(item, uses)).collect::<Vec<_>>() })
            }
            Given::Object(entries) => json!({ "object": self.named(entries, uses) }),
            Given::Binding { index, path } => {
                let node = self.ends[*index];
                uses.values.push((node, path.first().cloned().unwrap_or_default()));
                json!({ "node": node, "path": path })
            }
            Given::Cursor(path) => {
                uses.columns.extend(path.first().cloned());
                json!({ "row": path })
            }
            Given::Identity { entity, key } => {
                let seed = self.scope.seed(*entity);
                json!({ "identity": { "api": seed.api, "entity": seed.entity, "key": self.named(key, uses) } })
            }
            Given::Now { before } => {
                let seconds = self.now.seconds.saturating_sub(i64::try_from(*before).unwrap_or(i64::MAX));
                json!({ "json": Instant { seconds, nanos: self.now.nanos }.rfc3339() })
            }
        }
    }

    fn condition(&self, condition: &Condition, uses: &mut Uses) -> Json {
        let mut all =
            |many: &[Condition]| many.iter().map(|one| self.condition(one, uses)).collect::<Vec<_>>();
        match condition {
            Condition::Or(any) => json!({ "or": all(any) }),
            Condition::And(every) => json!({ "and": all(every) }),
            Condition::Not(inside) => json!({ "not": self.condition(inside, uses) }),
            Condition::Null { column, negated } => {
                uses.columns.insert(column.path[0].clone());
                json!({ "column": column.path, "is": if *negated { "not null" } else { "null" } })
            }
            Condition::Compare { column, op, value, .. } => {
                uses.columns.insert(column.path[0].clone());
                json!({ "column": column.path, "op": op.text(), "value": self.given(value, uses) })
            }
        }
    }
}
