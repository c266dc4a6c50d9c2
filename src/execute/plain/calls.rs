//! A call of a tool: a plan of its one operation, run as any other, and its rows as the answer. Writes are carried out to
//! their end, whoever waits for them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Map, Value as Json, json};
use tokio::time::Instant;

use super::{
    Inner,
    tools::{self, Param},
    values,
};
use crate::{
    execute::{
        canonical,
        catalog::{Coverage, EffectClass, Kind, Operation},
        fault::Fault,
        language::Span,
        plan::{self, Bounds, Card, Effect, Node, Op, Plan, Root, Verdict},
        run::{self, Cursor, Finished, RunSettings, Shown},
        surface::{
            self,
            answer::{self, Answer},
        },
    },
    mcp::Call,
    sealing::Purpose,
};

/// What of a call's time is left for the answer.
const MARGIN: Duration = Duration::from_secs(2);
/// Most bytes of an answer's rows.
const MOST_BYTES: usize = 1 << 20;
/// Longest place where a list goes on, sealed.
const LONGEST_CURSOR: usize = 16 << 10;

/// A call that is ready to be run.
pub(super) struct Ready {
    inner: Arc<Inner>,
    plan: Arc<Plan>,
    from: Option<Cursor>,
    /// What the next place is sealed for.
    bound: Vec<u8>,
    writes: bool,
}

impl Inner {
    /// Errors: what is given is not what the tool takes.
    pub(super) fn read(
        self: &Arc<Self>,
        at: usize,
        call: &Call,
        mut given: Map<String, Json>,
    ) -> Result<Ready, Fault> {
        let tool = &self.tools[at];
        let loaded = self.catalogs.get(&tool.api);
        let operation = loaded.and_then(|loaded| loaded.catalog.operations.get(&tool.operation));
        let gone = || {
            Fault::new(
                "unknown_arg",
                "the catalog of this tool is not served any more",
                "list the tools anew",
            )
        };
        let operation = operation.ok_or_else(gone)?;
        let (mut key, mut args) = (Map::new(), Map::new());
        let (mut text, mut limit, mut cursor) = (None, tools::ROWS, None);
        for takes in &tool.takes {
            // Many a client gives null for what it leaves out.
            let value = match given.remove(&takes.name).filter(|value| takes.needed || !value.is_null()) {
                Some(value) => takes.slot.read(&takes.name, value)?,
                None if takes.needed => return Err(values::missing(&takes.name)),
                None => continue,
            };
            match &takes.is {
                Param::Key(part) => drop(key.insert(part.clone(), json!({"json": value}))),
                Param::Arg(name) => drop(args.insert(name.clone(), json!({"json": value}))),
                Param::Text => text = Some(json!({"json": value})),
                Param::Limit => limit = value.as_u64().unwrap_or(tools::ROWS),
                Param::Cursor => cursor = value.as_str().map(str::to_owned),
            }
        }
        if let Some(other) = given.keys().next() {
            return Err(values::unknown(other, tool.takes.iter().map(|takes| takes.name.as_str())));
        }
        let bound = json!([
            "catalog tool",
            call.caller.profile,
            call.caller.principal().identity(),
            tool.name,
            tool.digest,
            args,
            text
        ]);
        let bound = canonical::canonical(&bound).into_bytes();
        let from = cursor.map(|sealed| self.opened(&bound, &sealed)).transpose()?;
        let plan = Step { api: &tool.api, id: &tool.operation, operation, key, args, text, limit }.plan(self);
        let writes = !plan.only_reads();
        Ok(Ready { inner: Arc::clone(self), plan: Arc::new(plan), from, bound, writes })
    }

    fn opened(&self, bound: &[u8], sealed: &str) -> Result<Cursor, Fault> {
        let wrong = || {
            let hint = "give next of an answer to the same arguments, or begin anew without a cursor";
            Fault::new("run_ref_expired", "the cursor is none of this list", hint)
        };
        if sealed.len() > LONGEST_CURSOR {
            return Err(wrong());
        }
        let plain = self.settings.keyring.open(Purpose::Cursor, bound, sealed).map_err(|_| wrong())?;
        serde_json::from_slice(&plain).map_err(|_| wrong())
    }
}

/// The one step of a call.
struct Step<'a> {
    api: &'a str,
    id: &'a str,
    operation: &'a Operation,
    key: Map<String, Json>,
    args: Map<String, Json>,
    text: Option<Json>,
    limit: u64,
}

impl Step<'_> {
    fn plan(self, inner: &Inner) -> Plan {
        let loaded = inner.catalogs.get(self.api);
        let entity = loaded.and_then(|loaded| loaded.catalog.entity(&self.operation.entity));
        let fields: Vec<String> =
            entity.into_iter().flat_map(|entity| entity.fields.keys()).map(str::to_owned).collect();
        let node = |id: usize, op: Op, inputs: Vec<usize>, args: Json| Node {
            id,
            op,
            api: Some(self.api.to_owned()),
            entity: Some(self.operation.entity.clone()),
            operation: (op != Op::Identity).then(|| self.id.to_owned()),
            inputs,
            after: Vec::new(),
            args,
            pushed: Vec::new(),
            residual: Vec::new(),
            cols: fields.clone(),
            fetched: Vec::new(),
            limit: None,
            page_size: None,
            card: Card::One,
            effect: None,
            bounds: Bounds { rows: 1, requests: 1 },
            partial: self.operation.coverage() == Coverage::Partial,
            span: Span::default(),
        };
        let pushed = self.args.iter().map(|(arg, value)| json!({"arg": arg, "op": "=", "value": value}));
        let many = |op: Op, args: Json| Node {
            pushed: pushed.collect(),
            limit: Some(self.limit),
            card: Card::Many,
            bounds: Bounds { rows: self.limit, requests: plan::MOST_PAGES },
            ..node(0, op, Vec::new(), args)
        };
        let class = self.operation.effect.as_ref().map_or(EffectClass::Write, |effect| effect.class);
        let effect = (!self.operation.kind.is_read() && class != EffectClass::Read).then_some(class);
        let nodes = match self.operation.kind {
            Kind::Get => vec![node(0, Op::Get, Vec::new(), json!({"key": self.key}))],
            Kind::Query => vec![many(Op::Query, Json::Null)],
            Kind::Search => vec![many(Op::Search, json!({"text": self.text}))],
            Kind::Create => vec![Node { effect, ..node(0, Op::Call, Vec::new(), json!(self.args)) }],
            Kind::Update | Kind::Delete | Kind::Action => vec![
                node(0, Op::Identity, Vec::new(), json!({"key": self.key})),
                Node { effect, ..node(1, Op::Call, vec![0], json!(self.args)) },
            ],
        };
        let last = nodes.len() - 1;
        let effects = effect.map(|class| Effect {
            node: last,
            api: self.api.to_owned(),
            entity: self.operation.entity.clone(),
            method: self.operation.name.clone().unwrap_or_else(|| self.id.to_owned()),
            class,
            idempotent: self.operation.effect.as_ref().is_some_and(|effect| effect.idempotent),
            calls: 1,
        });
        Plan {
            version: plan::VERSION,
            catalogs: loaded
                .map(|loaded| (self.api.to_owned(), loaded.digest.clone()))
                .into_iter()
                .collect::<BTreeMap<_, _>>(),
            requests: nodes.iter().map(|node| node.bounds.requests).sum(),
            nodes,
            roots: vec![Root { label: self.operation.entity.clone(), node: last }],
            warnings: Vec::new(),
            effects: effects.into_iter().collect(),
            verdict: Verdict::Ok,
        }
    }
}

impl Ready {
    pub(super) async fn ran(self, call: &Call) -> Result<Answer, Fault> {
        let left = call.deadline.saturating_duration_since(Instant::now()).saturating_sub(MARGIN);
        let mut settings = RunSettings::new(surface::random(), left.min(self.inner.settings.run));
        settings.from = self.from.clone();
        let run = run::run(
            Arc::clone(&self.plan),
            Arc::clone(&self.inner.catalogs),
            Arc::clone(&self.inner.sources),
            call.caller.clone(),
            settings,
        );
        let finished = match self.writes {
            false => run.await,
            // A write that has begun is carried out, though its caller goes away.
            true => self.inner.settings.tasks.spawn(run).await.map_err(|_| {
                let hint = "read what is there before you do it again";
                Fault::new(
                    "outcome_unknown",
                    "the write broke off: whether it was carried out is not known",
                    hint,
                )
            })?,
        };
        self.told(finished)
    }

    fn told(&self, finished: Finished) -> Result<Answer, Fault> {
        let Finished { roots, failed, mut warnings, .. } = finished;
        if let Some(failed) = failed {
            return Err(failed.fault);
        }
        let Some(root) = roots.into_iter().next() else {
            let message = "the source has not answered in the time that the call has";
            return Err(
                Fault::new("upstream_timeout", message, "ask for fewer rows, or try again").retryable()
            );
        };
        let mut rows: Vec<Json> = match root.result {
            Shown::Rows { columns, rows } => {
                let names: Vec<String> = columns.into_iter().map(|column| column.name).collect();
                let row = |cells: Vec<Json>| names.iter().cloned().zip(cells).collect::<Map<_, _>>();
                rows.into_iter().map(|cells| Json::Object(row(cells))).collect()
            }
            Shown::Text(text) => vec![json!({"text": text})],
        };
        let bytes: usize = rows.iter().map(|row| row.to_string().len()).sum();
        if bytes > MOST_BYTES && !self.writes {
            let message = format!("the rows have {bytes} bytes, and an answer has at most {MOST_BYTES}");
            return Err(Fault::new("too_large", message, "ask for fewer rows with limit"));
        }
        if bytes > MOST_BYTES {
            rows.clear();
            warnings.push("it was carried out; what came back is too large to be shown".to_owned());
        }
        if !root.lossy.is_empty() {
            warnings.push(format!(
                "values that are not of their type are given as they came: {}",
                root.lossy.join(", ")
            ));
        }
        let mut said = json!({"rows": rows, "coverage": root.coverage});
        if let Some(next) = &root.next {
            let plain = serde_json::to_vec(next).expect("a place is text and numbers");
            said["next"] = json!(self.inner.settings.keyring.seal(Purpose::Cursor, &self.bound, &plain));
        }
        if !warnings.is_empty() {
            said["warnings"] = json!(warnings);
        }
        let text = said.to_string();
        Ok(answer::said(&text, said, None))
    }
}
