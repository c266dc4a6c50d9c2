//! The steps of a plan, each begun when what it needs is there. Reads run beside each other; a write begins when everything
//! before it in the program has ended well.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::time::Instant;

use super::{
    Cursor, Failure, Finished, Position, Ran, RunSettings, Stop, WriteReport,
    asks::Asks,
    groups, outcome, render, stages,
    table::{Of, Output},
    values::{Inputs, broken},
};
use crate::{
    execute::{
        catalog::{Catalogs, Operation},
        fault::Fault,
        plan::{Node, Op, Plan},
        sources::{Ask, Sources},
    },
    mcp::Caller,
};

pub(super) struct Engine {
    pub plan: Arc<Plan>,
    catalogs: Arc<Catalogs>,
    pub caller: Arc<Caller>,
    pub settings: RunSettings,
    pub asks: Asks,
    /// The embedded relations that hops go along.
    pub relations: Vec<String>,
    wanted: BTreeSet<usize>,
    said: Mutex<Said>,
}

/// What steps say beside their output.
#[derive(Default)]
struct Said {
    warnings: Vec<(usize, String)>,
    writes: Vec<WriteReport>,
}

/// Where a step is.
enum State {
    Waits,
    Runs,
    Done(Arc<Output>),
    /// For itself, or as something before it failed (`None`).
    Failed(Option<Fault>),
    Late,
}

impl Engine {
    pub fn new(
        plan: Arc<Plan>,
        catalogs: Arc<Catalogs>,
        sources: Arc<dyn Sources>,
        caller: Arc<Caller>,
        settings: RunSettings,
    ) -> Engine {
        let relations = plan.nodes.iter().filter(|node| node.op == Op::Hop && node.operation.is_none());
        let relations = relations
            .filter_map(|node| node.args["relation"].as_str())
            .map(str::to_owned)
            .collect::<BTreeSet<_>>();
        let wanted = wanted(&plan, settings.from.as_ref());
        let deadline = Instant::now() + settings.deadline;
        let asks = Asks::new(sources, deadline, wanted.len(), settings.progress.clone());
        Engine {
            plan,
            catalogs,
            caller,
            settings,
            asks,
            relations: relations.into_iter().collect(),
            wanted,
            said: Mutex::default(),
        }
    }

    pub async fn run(self) -> Finished {
        let mut states: Vec<State> = self.plan.nodes.iter().map(|_| State::Waits).collect();
        let mut running = FuturesUnordered::new();
        let mut claimed = false;
        let followers = self.followers();
        let mut writes: VecDeque<usize> =
            self.wanted.iter().copied().filter(|id| self.plan.nodes[*id].effect.is_some()).collect();
        // What has not ended well.
        let mut open = self.wanted.clone();
        // What may be ready. A step is looked at again only when one that it waits for has ended: a program has thousands.
        let mut look: VecDeque<usize> = self.wanted.iter().copied().collect();
        loop {
            while let Some(id) = look.pop_front() {
                let node = &self.plan.nodes[id];
                if !matches!(states[id], State::Waits) {
                    continue;
                }
                match ready(node, &states, &open) {
                    Ready::Now => {
                        let inputs = inputs(node, &states);
                        // The claim is confirmed before the first write, and holds for all.
                        let claim = node.effect.is_some() && !claimed;
                        claimed |= claim;
                        states[id] = State::Runs;
                        running.push(self.step(node, inputs, claim));
                    }
                    Ready::Later => {}
                    Ready::Never { late } => {
                        states[id] = if late { State::Late } else { State::Failed(None) };
                        look.extend(&followers[id]);
                        look.extend(next_write(&mut writes, &states));
                    }
                }
            }
            let Some((id, ran)) = running.next().await else { break };
            self.asks.step();
            states[id] = match ran {
                Ok(output) => {
                    open.remove(&id);
                    State::Done(Arc::new(output))
                }
                Err(Stop::Late) => State::Late,
                Err(Stop::Failed(fault)) => State::Failed(Some(fault)),
            };
            look.extend(&followers[id]);
            look.extend(next_write(&mut writes, &states));
        }
        drop(running);
        self.finish(states)
    }

    /// The steps that take what a step gives, or come after it, by its id.
    fn followers(&self) -> Vec<Vec<usize>> {
        let mut followers = vec![Vec::new(); self.plan.nodes.len()];
        for id in &self.wanted {
            let node = &self.plan.nodes[*id];
            node.inputs.iter().chain(&node.after).for_each(|needed| followers[*needed].push(*id));
        }
        followers
    }

    async fn step(&self, node: &Node, inputs: Inputs, claim: bool) -> (usize, Ran<Output>) {
        (node.id, self.carry_out(node, &inputs, claim).await)
    }

    async fn carry_out(&self, node: &Node, inputs: &Inputs, claim: bool) -> Ran<Output> {
        if let Some(claim) = self.settings.claim.as_ref().filter(|_| claim) {
            claim.confirm().await?;
        }
        let table = match node.op {
            Op::Query | Op::Search => self.query(node, inputs).await?,
            Op::Get => self.get(node, inputs).await?,
            Op::Identity => self.identity(node, inputs).await?,
            Op::Hop => self.hop(node, inputs).await?,
            Op::Call | Op::Each => self.call(node, inputs).await?,
            Op::Group => groups::group(node, inputs, &self.asks)?,
            Op::Text => {
                let text = node.args["text"].as_str().unwrap_or_default();
                return Ok(Output::Text(text.to_owned()));
            }
            Op::Render => {
                let template = node.args.as_str().unwrap_or_default();
                let (template, table) = (template.to_owned(), inputs.table()?.clone());
                self.asks.copies(|most| render::weight(&table, most))?;
                // It may take long, and nothing else is to wait for it.
                let text = tokio::task::spawn_blocking(move || render::render(&template, &table)).await;
                return text.map_err(|_| broken("a template could not be run"))?.map(Output::Text);
            }
            Op::Filter | Op::Sort | Op::Limit | Op::PageSize | Op::Distinct | Op::Singleton | Op::Columns => {
                stages::stage(node, inputs)?
            }
        };
        Ok(Output::Table(table))
    }

    fn finish(&self, states: Vec<State>) -> Finished {
        let said = std::mem::take(&mut *self.said.lock().unwrap_or_else(PoisonError::into_inner));
        let mut finished = Finished { requests: self.asks.requests(), ..Finished::default() };
        let (mut late, mut lost, mut large) = (Vec::new(), None, None);
        // A root that was told before may be here again on the way to one that was not.
        let from = self.settings.from.as_ref();
        let brings = |root: usize| from.is_none_or(|from| from.roots.contains(&root));
        for (root, of) in self.plan.roots.iter().enumerate().filter(|(root, _)| brings(*root)) {
            let mut from_here = ancestors(&self.plan, [of.node]);
            from_here.retain(|id| self.plan.nodes[*id].effect.is_some());
            // What writes is never run a second time.
            let again = from_here.is_empty();
            match &states[of.node] {
                State::Done(output) => match outcome::root(root, of, output, &self.asks) {
                    Ok(shown) => {
                        let next = shown.next.filter(|_| again);
                        finished.roots.push(super::RootRows { next, ..shown });
                    }
                    Err(fault) => large = large.or(Some(Failure { node: of.node, fault })),
                },
                State::Late if again => late.push(root),
                State::Late => lost = lost.or(Some(of.node)),
                _ => {}
            }
        }
        finished.rest = (!late.is_empty()).then_some(Cursor { roots: late, read: None });
        let failed = states.iter().enumerate().find_map(|(node, state)| match state {
            State::Failed(Some(fault)) => Some(Failure { node, fault: fault.clone() }),
            _ => None,
        });
        finished.failed = failed.or(large).or(lost.map(|node| Failure {
            node,
            fault: Fault::new(
                "deadline",
                "there was no time for what follows the writes",
                "the writes are reported; read what is there with a program of its own",
            ),
        }));
        for effect in self.plan.effects.iter().filter(|effect| self.wanted.contains(&effect.node)) {
            let report = said.writes.iter().find(|report| report.node == effect.node).cloned();
            finished.writes.push(report.unwrap_or_else(|| WriteReport {
                waits: true,
                ..self.report(&self.plan.nodes[effect.node])
            }));
        }
        let mut warnings = said.warnings;
        warnings.sort();
        warnings.dedup();
        finished.warnings = warnings.into_iter().map(|(_, warning)| warning).collect();
        finished
    }

    pub(super) fn of(&self, node: &Node) -> Ran<Of> {
        let (Some(api), Some(entity)) = (&node.api, &node.entity) else {
            return Err(broken("a step is of no entity").into());
        };
        match self.catalogs.get(api) {
            Some(loaded) if self.plan.catalogs.get(api).is_none_or(|digest| *digest == loaded.digest) => {
                Ok(Of { catalog: Arc::clone(&loaded.catalog), entity: entity.as_str().into() })
            }
            _ => Err(broken(&format!("the catalog {api} is no longer the one of the plan")).into()),
        }
    }

    pub(super) fn operation<'o>(&self, node: &Node, of: &'o Of) -> Ran<&'o Operation> {
        let found = node.operation.as_ref().and_then(|id| of.catalog.operations.get(id));
        found.filter(|operation| operation.enabled).ok_or_else(|| broken("a step has no operation").into())
    }

    /// A request of that operation, with nothing given to it yet.
    pub(super) fn ask(&self, of: &Of, operation: &str) -> Ask {
        Ask {
            catalog: Arc::clone(&of.catalog),
            operation: operation.into(),
            key: Default::default(),
            args: Default::default(),
            text: None,
            page: None,
            page_size: None,
            idempotency_key: None,
            caller: Arc::clone(&self.caller),
        }
    }

    /// Where a read begins in this run.
    pub(super) fn begins(&self, node: &Node) -> Position {
        let read = self.settings.from.as_ref().and_then(|from| from.read.as_ref());
        read.filter(|read| read.node == node.id).map(|read| read.place.clone()).unwrap_or_default()
    }

    pub(super) fn warn(&self, node: &Node, warning: String) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.warnings.len() < MOST_WARNINGS {
            said.warnings.push((node.id, warning));
        }
    }

    pub(super) fn warn_gone(&self, node: &Node, gone: usize) {
        if gone > 0 {
            let entity = node.entity.as_deref().unwrap_or_default();
            let what = node.fetched.join(", ");
            self.warn(
                node,
                format!("{gone} rows of {entity} were gone when their {what} was fetched: it is null there"),
            );
        }
    }

    pub(super) fn reported(&self, report: WriteReport) {
        if self.plan.nodes[report.node].effect.is_some() {
            self.said.lock().unwrap_or_else(PoisonError::into_inner).writes.push(report);
        }
    }
}

/// Most warnings that one run keeps.
const MOST_WARNINGS: usize = 100;

enum Ready {
    Now,
    Later,
    Never { late: bool },
}

/// Whether a step can begin; `open`: the steps that have not ended well.
fn ready(node: &Node, states: &[State], open: &BTreeSet<usize>) -> Ready {
    let mut late = false;
    let mut waits = false;
    let needs = node.inputs.iter().chain(&node.after).copied();
    // What a program says before a write is done before it, and has gone well: the first that is not says enough.
    let before = open.range(..node.id).next().copied().filter(|_| node.effect.is_some());
    for needed in needs.chain(before) {
        match &states[needed] {
            State::Done(_) => {}
            State::Failed(_) => return Ready::Never { late: false },
            State::Late => late = true,
            State::Waits | State::Runs => waits = true,
        }
    }
    match (late, waits) {
        (true, _) => Ready::Never { late: true },
        (_, true) => Ready::Later,
        _ => Ready::Now,
    }
}

/// The first write that waits: those after it wait for it.
fn next_write(writes: &mut VecDeque<usize>, states: &[State]) -> Option<usize> {
    while writes.pop_front_if(|id| !matches!(states[*id], State::Waits)).is_some() {}
    writes.front().copied()
}

fn inputs(node: &Node, states: &[State]) -> Inputs {
    let output = |id: &usize| match &states[*id] {
        State::Done(output) => Some((*id, Arc::clone(output))),
        _ => None,
    };
    Inputs(node.inputs.iter().filter_map(output).collect())
}

/// The steps that lead to the roots, and, of a whole run, to the writes.
fn wanted(plan: &Plan, from: Option<&Cursor>) -> BTreeSet<usize> {
    match from {
        Some(cursor) => ancestors(
            plan,
            cursor.roots.iter().filter_map(|root| plan.roots.get(*root)).map(|root| root.node),
        ),
        None => {
            let writes = plan.effects.iter().map(|effect| effect.node);
            ancestors(plan, plan.roots.iter().map(|root| root.node).chain(writes))
        }
    }
}

fn ancestors(plan: &Plan, of: impl IntoIterator<Item = usize>) -> BTreeSet<usize> {
    let mut wanted: BTreeSet<usize> = of.into_iter().collect();
    for node in plan.nodes.iter().rev() {
        if wanted.contains(&node.id) {
            wanted.extend(node.inputs.iter().chain(&node.after));
        }
    }
    wanted
}
