//! Calls of methods: one, or one a row, in the program's order; each with a key by which its source knows it again. It stops
//! at the first failure, and what was done and what was not is reported.

use std::sync::Arc;

use serde_json::{Map, Value as Json, json};

use super::{
    Ran, Stop, WriteFailed, WriteReport,
    asks::{Missing, fault},
    engine::Engine,
    raw::{Form, wired},
    reads::{wired_key, within},
    table::{Column, Of, Rows, Table, Type, identity},
    values::{Inputs, broken, named},
};
use crate::execute::{
    canonical,
    catalog::{Base, Kind, Operation},
    fault::Fault,
    plan::{MOST_WRITES, Node, Op},
    sources::{Ask, Page},
};

/// One call of a method, ready to be made.
struct One {
    key: Map<String, Json>,
    args: Map<String, Json>,
}

/// What a call gave back.
struct Came {
    /// What it was called on.
    key: Map<String, Json>,
    row: Option<Json>,
    ack: Option<String>,
}

impl Engine {
    /// `Call` and `Each`.
    pub(super) async fn call(&self, node: &Node, inputs: &Inputs) -> Ran<Table> {
        let of = self.of(node)?;
        let operation = self.operation(node, &of)?;
        let calls = match node.op {
            Op::Each => self.each(node, inputs, &of)?,
            _ => vec![One {
                key: match operation.kind {
                    Kind::Create => Map::new(),
                    _ => target(inputs.table()?)?,
                },
                args: given(&node.args, inputs, None)?,
            }],
        };
        let mut report = self.report(node);
        let mut came = Vec::with_capacity(calls.len());
        let names: Vec<Json> = calls.iter().map(|call| identity(call.key.clone())).collect();
        for (index, call) in calls.into_iter().enumerate() {
            match self.make(node, &of, operation, index, &call).await {
                Ok(page) => {
                    let row = page.rows.into_iter().next().filter(|row| !row.is_null());
                    page.warnings.into_iter().for_each(|warning| self.warn(node, warning));
                    let key = match operation.kind {
                        Kind::Create => within(&of, &call.args),
                        _ => call.key,
                    };
                    came.push(Came { key, row, ack: page.ack });
                    report.done.push(names[index].clone());
                }
                Err(missing) => {
                    let stop = self.stopped(node, missing, &mut report, &names[index..]);
                    self.reported(report);
                    return Err(stop);
                }
            }
        }
        let rows = match self.written(node, &of, operation, came) {
            Ok(rows) => rows,
            // What was written is written, though what came back cannot be held: it is not to be made again.
            Err(stop) => {
                self.reported(report);
                return Err(stop);
            }
        };
        for (done, row) in report.done.iter_mut().zip(0..rows.len) {
            // What was made has its identity from the source.
            if done.is_null() {
                *done = identity(rows.key(row));
            }
        }
        self.reported(report);
        // What did not come back, and is wanted, is read as it is now.
        self.filled(node, &of, rows).await.map(Table::of)
    }

    async fn make(
        &self,
        node: &Node,
        of: &Of,
        operation: &Operation,
        index: usize,
        call: &One,
    ) -> Result<Page, Missing> {
        let arg = |(name, value): (&String, &Json)| {
            let arg = operation.args.get(name);
            (name.clone(), arg.map_or_else(|| value.clone(), |arg| wired(value.clone(), of, &arg.holds)))
        };
        let mut ask = self.ask(of, node.operation.as_deref().unwrap_or_default());
        ask.key = wired_key(of, &call.key);
        ask.args = call.args.iter().map(arg).collect();
        if node.effect.is_none() {
            return self.asks.page(ask).await;
        }
        ask.idempotency_key = Some(self.idempotency_key(node.id, index));
        self.asks.write(Ask { caller: Arc::clone(&self.caller), ..ask }).await
    }

    /// The same for the same call of the same run, and for no other.
    fn idempotency_key(&self, node: usize, row: usize) -> String {
        let mut key = canonical::sha256(&json!(["plasm", &*self.settings.run, node, row]));
        key.truncate(32);
        key
    }

    fn each(&self, node: &Node, inputs: &Inputs, of: &Of) -> Ran<Vec<One>> {
        let rows = inputs.table()?;
        if rows.late {
            return Err(Stop::Late);
        }
        if rows.order.len() as u64 > MOST_WRITES {
            let message = format!(
                "at most {MOST_WRITES} rows are written, and there are {}; nothing was written",
                rows.order.len()
            );
            let hint = format!("say which with | limit({MOST_WRITES}), or narrow the rows by a filter");
            return Err(Fault::new("too_large", message, hint).into());
        }
        let one = |row: &u32| {
            let at_hand = Some((rows, *row));
            let key = match &node.args["target"] {
                Json::Object(key) => named(key, inputs, at_hand)?,
                Json::Null => Map::new(),
                _ => rows.rows.key(*row as usize),
            };
            if key.len() < of.key().len() && !node.args["target"].is_null() {
                return Err(broken("a row has no key").into());
            }
            Ok(One { key, args: given(&node.args["args"], inputs, at_hand)? })
        };
        rows.order.iter().map(one).collect()
    }

    /// What a call that did not succeed makes of its step; `left`: its row and those after it.
    fn stopped(&self, node: &Node, missing: Missing, report: &mut WriteReport, left: &[Json]) -> Stop {
        let done = report.done.len();
        let said = |message: &str| match node.op {
            Op::Each => {
                format!("{message} ({done} done, then stopped; {} not begun)", left.len().saturating_sub(1))
            }
            _ => message.to_owned(),
        };
        match missing {
            Missing::Failed(error) => {
                report.failed = Some(WriteFailed {
                    row: left.first().cloned().unwrap_or_default(),
                    message: error.message.clone(),
                    uncertain: error.uncertain && node.effect.is_some(),
                });
                report.pending = left.iter().skip(1).cloned().collect();
                let fault = fault(&error, node.effect.is_some());
                Stop::Failed(Fault { message: said(&fault.message), ..fault })
            }
            Missing::Late if node.effect.is_none() => Stop::Late,
            Missing::Late => {
                report.pending = left.to_vec();
                let message =
                    format!("there was no time for all writes: {done} done, {} not begun", left.len());
                Stop::Failed(Fault::new("deadline", message, "read what is there, and plan the rest again"))
            }
        }
    }

    /// The rows as the calls gave them back; where a call gave none, its key and what the source said.
    fn written(&self, node: &Node, of: &Of, operation: &Operation, came: Vec<Came>) -> Ran<Rows> {
        let any = came.iter().any(|call| call.row.is_some());
        let comes =
            |name: &str| any && operation.returns(name) || node.fetched.iter().any(|fetched| fetched == name);
        let form = Form::new(of.clone(), &comes, &self.relations, None);
        let mut rows = form.empty();
        let mut acks = Vec::new();
        for Came { key, row, ack } in came {
            let bytes = match row {
                Some(row) => form.read(&row, Some(&key), &mut rows),
                None => form.bare(&key, &mut rows),
            };
            self.asks.held(bytes)?;
            acks.push(Json::from(ack.unwrap_or_else(|| "done".to_owned())));
        }
        if !any && operation.kind == Kind::Create {
            // Without its row it has no key to show.
            rows.columns.clear();
        }
        if !any {
            rows.columns.push(Column { name: "ack".to_owned(), ty: Type::Base(Base::Text), cells: acks });
        }
        Ok(rows)
    }

    pub(super) fn report(&self, node: &Node) -> WriteReport {
        let effect = self.plan.effects.iter().find(|effect| effect.node == node.id);
        WriteReport {
            node: node.id,
            api: node.api.clone().unwrap_or_default(),
            entity: node.entity.clone().unwrap_or_default(),
            method: effect.map(|effect| effect.method.clone()).unwrap_or_default(),
            class: effect.map_or(crate::execute::catalog::EffectClass::Read, |effect| effect.class),
            done: Vec::new(),
            failed: None,
            pending: Vec::new(),
            waits: false,
        }
    }
}

fn target(table: &Table) -> Ran<Map<String, Json>> {
    if table.late {
        return Err(Stop::Late);
    }
    Ok(table.rows.key(table.one()? as usize))
}

fn given(args: &Json, inputs: &Inputs, row: Option<(&Table, u32)>) -> Ran<Map<String, Json>> {
    match args {
        Json::Object(args) => named(args, inputs, row),
        _ => Ok(Map::new()),
    }
}
