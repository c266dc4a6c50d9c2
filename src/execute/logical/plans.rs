//! Plans that wait to be run, and places where a read goes on. What is kept is what makes the plan again (its program, the
//! instant that `now()` is, what was taught then), so that any pod plans it anew and holds it against the hash.

use std::{collections::BTreeMap, sync::Arc};

use aws_lc_rs::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{
    Held, Logical, LogicalError, Owner, RunClaim, RunRef,
    claim::Claimed,
    handle::RefKind,
    record::{RECORD, json},
};
use crate::{
    execute::{
        instant::Instant,
        language::{ProgramError, check},
        plan::{Plan, plan},
        run::Cursor,
        symbols::Scope,
    },
    store::{Check, Commit, Key, Sure, Write},
};

/// The field of a plan's record, and of what the pages of a plan share.
const PLAN: &str = "p";
/// The fields of a page's record: where it goes on, and by which name the plan is kept.
const FROM: &str = "c";
const OF: &str = "o";

/// What makes a plan again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Remembered {
    pub program: String,
    /// What `now()` and `ago()` froze to: seconds since 1970, and nanoseconds within.
    now: (i64, u32),
    /// The entities, relations and methods that there were: more of them may make names ambiguous.
    taught: [usize; 3],
    pub hash: String,
    pub digests: BTreeMap<String, String>,
    /// Whether it is anything but reads.
    pub writes: bool,
    /// Where it goes on; `None`: at its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Cursor>,
    /// The principal who planned it, in its profile.
    who: Arc<str>,
}

/// A run that may begin, or has been.
#[derive(Debug)]
pub enum Begun {
    /// It only reads: it may be run by anyone, any number of times.
    Reads(Box<Plan>, Box<Remembered>),
    /// It is this call's alone. The claim is held while it runs, and finished with its outcome.
    Writes(Box<Plan>, Box<Remembered>, RunClaim),
    /// It has been run; its outcome as it was recorded.
    Done(Json),
}

impl Remembered {
    pub fn of(held: &Held, owner: &Owner, program: &str, now: Instant, plan: &Plan) -> Remembered {
        let ledger = &held.scope.ledger;
        Remembered {
            program: program.to_owned(),
            now: (now.seconds, now.nanos),
            taught: [ledger.entities.len(), ledger.relations.len(), ledger.methods.len()],
            hash: plan.hash(),
            digests: plan.catalogs.clone(),
            writes: !plan.only_reads(),
            from: None,
            who: Arc::clone(&owner.who),
        }
    }

    /// The plan, made again. Errors: [`LogicalError::PlanChanged`].
    pub fn plan(&self, held: &Held) -> Result<Plan, LogicalError> {
        let changed = |why: String| LogicalError::PlanChanged(why);
        let differs = |(api, digest): &(&String, &String)| held.digests.get(*api) != Some(*digest);
        if let Some((api, _)) = self.digests.iter().find(differs) {
            return Err(changed(format!("the catalog {api} has changed")));
        }
        let mut ledger = held.scope.ledger.clone();
        ledger.entities.truncate(self.taught[0]);
        ledger.relations.truncate(self.taught[1]);
        ledger.methods.truncate(self.taught[2]);
        let scope = Scope::new(ledger, &held.catalogs)?;
        let now = Instant { seconds: self.now.0, nanos: self.now.1 };
        let again = |error: Box<ProgramError>| changed(error.to_string());
        let typed = check(&self.program, &scope).map_err(again)?;
        let plan = plan(&typed, &self.program, &scope, &held.catalogs, now).map_err(again)?;
        match plan.hash() == self.hash {
            true => Ok(plan),
            false => Err(changed("this pod plans it in another way".to_owned())),
        }
    }
}

impl Logical {
    /// Keeps a plan to be run later (15 minutes).
    pub async fn remember(&self, held: &Held, plan: &Remembered) -> Result<RunRef, LogicalError> {
        let run_ref = RunRef::random(RefKind::Plan, &held.handle);
        let key = place(held, &run_ref);
        let checks = vec![(held.key(RECORD), Check::Present), (key.clone(), Check::Absent)];
        let writes =
            vec![(key.clone(), Write::set(PLAN, json(plan))), (key, Write::Live(self.settings.plan))];
        self.kept(checks, writes).await?;
        Ok(run_ref)
    }

    /// Keeps where the reads of a plan go on (an hour), each by a reference of its own. They never change. The plan is kept
    /// once for all of them, named by what it says: a program may have many roots, and each page has pages again.
    pub async fn pages(
        &self,
        held: &Held,
        plan: &Remembered,
        from: &[Cursor],
    ) -> Result<Vec<RunRef>, LogicalError> {
        if from.is_empty() {
            return Ok(Vec::new());
        }
        let life = self.settings.page;
        let plan = json(&Remembered { from: None, ..plan.clone() });
        let name: String = digest(&SHA256, &plan).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let key = shared(held, &name);
        let mut checks = vec![(held.key(RECORD), Check::Present)];
        let mut writes = vec![(key.clone(), Write::set(PLAN, plan)), (key, Write::Live(life))];
        let mut pages = Vec::new();
        for from in from {
            let page = RunRef::random(RefKind::Page, &held.handle);
            let key = place(held, &page);
            checks.push((key.clone(), Check::Absent));
            writes.push((key.clone(), Write::set(FROM, json(from))));
            writes.push((key.clone(), Write::set(OF, name.clone())));
            writes.push((key, Write::Live(life)));
            pages.push(page);
        }
        self.kept(checks, writes).await?;
        Ok(pages)
    }

    async fn kept(&self, checks: Vec<(Key, Check)>, writes: Vec<(Key, Write)>) -> Result<(), LogicalError> {
        match self.store.commit(checks, writes, Sure::Master).await? {
            Commit::Done(_) => Ok(()),
            Commit::Failed { .. } => Err(LogicalError::Expired),
        }
    }

    /// What a reference is to, without beginning it. Errors: [`LogicalError::UnknownRef`], `RefExpired`, `Store`.
    pub async fn recall(
        &self,
        held: &Held,
        owner: &Owner,
        run_ref: &str,
    ) -> Result<(RunRef, Remembered), LogicalError> {
        let run_ref = RunRef::parse(run_ref, &held.handle).ok_or(LogicalError::UnknownRef)?;
        let mut record = self.store.get(place(held, &run_ref)).await?.ok_or(LogicalError::RefExpired)?;
        let mut from = None;
        if let Some(name) = record.field(OF).and_then(|name| std::str::from_utf8(name).ok()) {
            from = record.field(FROM).and_then(|from| serde_json::from_slice::<Cursor>(from).ok());
            let plan = self.store.get(shared(held, name)).await?;
            record = plan.filter(|_| from.is_some()).ok_or(LogicalError::RefExpired)?;
        }
        let plan = record.field(PLAN).and_then(|plan| serde_json::from_slice::<Remembered>(plan).ok());
        // A page that an earlier release kept has it in its plan.
        let plan = plan.map(|plan| Remembered { from: from.or(plan.from), ..plan });
        match plan {
            Some(plan) if plan.who == owner.who => Ok((run_ref, plan)),
            Some(_) => Err(LogicalError::UnknownRef),
            None => Err(LogicalError::RefExpired),
        }
    }

    /// Begins the run of a reference. A plan that writes is claimed by it, once.
    pub async fn begin_run(&self, held: &Held, owner: &Owner, run_ref: &str) -> Result<Begun, LogicalError> {
        let (name, remembered) = match self.recall(held, owner, run_ref).await {
            Ok(found) => found,
            // Its outcome is kept for longer than the plan.
            Err(LogicalError::RefExpired) => {
                let name = RunRef::parse(run_ref, &held.handle).ok_or(LogicalError::UnknownRef)?;
                return match self.look(held, owner, &name).await? {
                    Claimed::Done(outcome) => Ok(Begun::Done(outcome)),
                    _ => Err(LogicalError::RefExpired),
                };
            }
            Err(error) => return Err(error),
        };
        if !remembered.writes {
            let plan = remembered.plan(held)?;
            return Ok(Begun::Reads(Box::new(plan), Box::new(remembered)));
        }
        let found = match self.look(held, owner, &name).await? {
            Claimed::Done(outcome) => return Ok(Begun::Done(outcome)),
            found => found,
        };
        let plan = remembered.plan(held)?;
        let claim = self.claim(held, owner, &name, &place(held, &name), found).await?;
        Ok(Begun::Writes(Box::new(plan), Box::new(remembered), claim))
    }
}

fn place(held: &Held, run_ref: &RunRef) -> Key {
    let kind = match run_ref.kind {
        RefKind::Plan => "plan",
        RefKind::Page => "page",
    };
    held.key(&format!("{kind}:{}", run_ref.name()))
}

/// Where the plan lies that pages share.
fn shared(held: &Held, name: &str) -> Key {
    held.key(&format!("paged:{name}"))
}
