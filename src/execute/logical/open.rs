//! Opens sessions, and teaches them more. What concurs converges: opens of one intent meet in one session, and waves of
//! seeds each add what the ones before did not.

use std::{sync::Arc, time::Duration};

use serde::Serialize;

use super::{
    Handle, Held, LONGEST_INTENT, Logical, LogicalError, Owner,
    handle::random,
    record::{self, Head, RECORD, TRACE},
};
use crate::{
    clock::unix_ms,
    execute::{
        catalog::Catalogs,
        symbols::{Ledger, Member, Scope, Seed},
        teaching,
    },
    store::{Check, Commit, Key, Sure, Write},
};

/// Rounds against others who change the same thing. Each round somebody succeeds.
const ROUNDS: u32 = 200;
/// The field of an intent's record that names its session.
const SESSION: &str = "l";

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Open<'a> {
    /// White space around it does not count.
    pub intent: &'a str,
    /// Not empty, and each of a catalog that the caller may use: whoever calls has seen to that.
    pub seeds: &'a [Seed],
    /// `logical_session_ref`: extends exactly that session.
    pub given: Option<&'a str>,
    /// A new session, whatever there is.
    pub fresh: bool,
}

/// A session, and what it learned by this call.
#[derive(Clone, Debug)]
pub struct Opened {
    pub held: Arc<Held>,
    /// The teaching table of what is new; empty where nothing is.
    pub table: String,
    pub added: Vec<Added>,
    /// Those of the seeds that it knew, with their symbols.
    pub known: Vec<Added>,
    /// What it had been taught before.
    pub before: Ledger,
    pub continuity: Continuity,
}

/// A symbol, and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Added {
    pub symbol: String,
    /// `api::Entity`, or `api::Entity.member`.
    pub name: String,
}

/// What has become of the symbols that the agent may know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Continuity {
    /// The session that this intent, or this reference, led to is gone; another stands in its place.
    pub stale_binding_recovered: bool,
    /// The symbols begin anew with this reply.
    pub new_symbol_space: bool,
    /// Those of earlier replies are void.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub discard_cached_plasm_symbols: bool,
}

impl Continuity {
    const SAME: Continuity = Continuity {
        stale_binding_recovered: false,
        new_symbol_space: false,
        discard_cached_plasm_symbols: false,
    };
    const NEW: Continuity = Continuity { new_symbol_space: true, ..Continuity::SAME };
    const RECOVERED: Continuity = Continuity {
        stale_binding_recovered: true,
        new_symbol_space: true,
        discard_cached_plasm_symbols: true,
    };
}

/// A ledger with one wave of seeds more.
struct Wave {
    scope: Scope,
    catalogs: Catalogs,
    table: String,
}

impl Logical {
    /// The session of an intent, or the one that is given, with the seeds in it. Nothing is written where it fails, but for
    /// [`LogicalError::Store`].
    pub async fn open(&self, owner: &Owner, ask: Open<'_>) -> Result<Opened, LogicalError> {
        let intent = ask.intent.trim();
        if intent.len() > LONGEST_INTENT {
            return Err(LogicalError::Intent);
        }
        if ask.seeds.is_empty() {
            return Err(LogicalError::NoSeeds);
        }
        let key = owner.intent(intent).map(|hash| Key::new(format!("i:{hash}"), ""));
        if let (Some(given), false) = (ask.given, ask.fresh) {
            return match self.load(owner, given).await {
                Ok(held) => self.extend(owner, held, ask.seeds).await,
                // Its symbols cannot be gone on with: others, in a session of their own.
                Err(LogicalError::Void) => {
                    self.begin(owner, intent, ask.seeds, key, Continuity::RECOVERED).await
                }
                Err(error) => Err(error),
            };
        }
        match key {
            Some(key) if !ask.fresh => self.meet(owner, intent, ask.seeds, key).await,
            key => {
                let continuity = Continuity { discard_cached_plasm_symbols: ask.fresh, ..Continuity::NEW };
                self.begin(owner, intent, ask.seeds, key, continuity).await
            }
        }
    }

    /// A session of its own, to which the intent leads from now on.
    async fn begin(
        &self,
        owner: &Owner,
        intent: &str,
        seeds: &[Seed],
        key: Option<Key>,
        continuity: Continuity,
    ) -> Result<Opened, LogicalError> {
        let handle = Handle::random();
        let begun = self.create(owner, &handle, intent, seeds, continuity).await?;
        let Some(opened) = begun else { return Err(LogicalError::Busy) };
        if let Some(key) = key {
            self.store
                .commit(Vec::new(), leads(&key, &handle, self.settings.whole_life), Sure::Master)
                .await?;
        }
        Ok(opened)
    }

    /// The session that all who come with this intent share.
    async fn meet(
        &self,
        owner: &Owner,
        intent: &str,
        seeds: &[Seed],
        key: Key,
    ) -> Result<Opened, LogicalError> {
        // Before a name is written that leads nowhere.
        self.wave(Ledger::default(), Catalogs::default(), seeds)?;
        let life = self.settings.whole_life;
        let mut continuity = Continuity::NEW;
        let mut mine = Handle::random();
        let mut was: Option<Handle> = None;
        for round in 0..ROUNDS {
            let check = match &was {
                None => Check::Absent,
                Some(was) => Check::field(SESSION, was.to_string()),
            };
            let commit =
                self.store.commit(vec![(key.clone(), check)], leads(&key, &mine, life), Sure::Master).await?;
            let handle = match commit {
                Commit::Done(_) => mine.clone(),
                Commit::Failed { .. } => {
                    let record = self.store.get(key.clone()).await?;
                    let named = record.as_ref().and_then(|record| record.field(SESSION));
                    let named = named.and_then(|named| Handle::parse(std::str::from_utf8(named).ok()?));
                    match named {
                        Some(handle) => handle,
                        // It expired between the two; or another release wrote it, which does not last.
                        None => {
                            was = None;
                            pause(round).await;
                            continue;
                        }
                    }
                }
            };
            match self.found(owner, &handle).await {
                Ok(Some(held)) => {
                    self.touch(&held).await;
                    return self.extend(owner, held, seeds).await;
                }
                // This call named it, or whoever did went away before it was there: then nobody was taught anything.
                Ok(None) => match self.create(owner, &handle, intent, seeds, continuity).await? {
                    Some(opened) => return Ok(opened),
                    None => pause(round).await,
                },
                Err(LogicalError::Expired | LogicalError::Void) => {
                    continuity = Continuity::RECOVERED;
                    was = Some(handle);
                    mine = Handle::random();
                }
                Err(error) => return Err(error),
            }
        }
        Err(LogicalError::Busy)
    }

    /// A new session under a handle; `None` where there is, or was, one by now.
    async fn create(
        &self,
        owner: &Owner,
        handle: &Handle,
        intent: &str,
        seeds: &[Seed],
        continuity: Continuity,
    ) -> Result<Option<Opened>, LogicalError> {
        let wave = self.wave(Ledger::default(), Catalogs::default(), seeds)?;
        let head = Head {
            owner: Arc::clone(&owner.owns),
            intent: intent.into(),
            born: unix_ms(),
            revision: 1,
            catalogs: digests(&wave.catalogs),
        };
        let (key, trace) = (record::key(handle, RECORD), record::key(handle, TRACE));
        let checks = vec![(key.clone(), Check::Absent), (trace.clone(), Check::Absent)];
        let mut writes = record::packed(&key, &head, &wave.scope.ledger);
        writes.push((key, Write::Live(self.left(&head))));
        writes.push((trace.clone(), record::trace(owner)));
        writes.push((trace, Write::Live(self.settings.trace)));
        let Commit::Done(revs) = self.store.commit(checks, writes, Sure::Master).await? else {
            return Ok(None);
        };
        self.touched.insert(handle.clone(), ());
        let rev = revs.first().copied().unwrap_or_default();
        self.opened(handle, head, rev, wave, &Ledger::default(), seeds, continuity).map(Some)
    }

    /// Adds what the seeds bring that the session does not know.
    async fn extend(
        &self,
        owner: &Owner,
        mut held: Arc<Held>,
        seeds: &[Seed],
    ) -> Result<Opened, LogicalError> {
        for round in 0..ROUNDS {
            let before = held.scope.ledger.clone();
            let wave = self.wave(before.clone(), Catalogs::clone(&held.catalogs), seeds)?;
            if wave.scope.ledger == before {
                let known = known(&before, seeds);
                let (table, added) = (String::new(), Vec::new());
                return Ok(Opened { held, table, added, known, before, continuity: Continuity::SAME });
            }
            let mut head = held.head.clone();
            head.revision += 1;
            head.catalogs = digests(&wave.catalogs);
            let key = held.key(RECORD);
            let mut writes = record::packed(&key, &head, &wave.scope.ledger);
            writes.push((key.clone(), Write::Live(self.left(&head))));
            let commit = self.store.commit(vec![(key, Check::Rev(held.rev))], writes, Sure::Master).await?;
            if let Commit::Done(revs) = commit {
                let rev = revs.first().copied().unwrap_or_default();
                let handle = held.handle.clone();
                return self.opened(&handle, head, rev, wave, &before, seeds, Continuity::SAME);
            }
            pause(round).await;
            // What others added is not added again.
            held = self.found(owner, &held.handle).await?.ok_or(LogicalError::Unknown)?;
        }
        Err(LogicalError::Busy)
    }

    /// A ledger with the seeds in it, and the table of what they add. New catalogs come as they are served now.
    fn wave(&self, mut ledger: Ledger, mut catalogs: Catalogs, seeds: &[Seed]) -> Result<Wave, LogicalError> {
        let served = self.shelf.served();
        let before = ledger.clone();
        for seed in seeds {
            if let Some(loaded) = served.get(&seed.api) {
                // Of one that it has, it keeps the form that its symbols are of.
                catalogs.add(loaded.clone());
            }
        }
        ledger.extend(seeds, &catalogs)?;
        let scope = Scope::new(ledger, &catalogs)?;
        let table = teaching::table(&scope, &before)?;
        Ok(Wave { scope, catalogs, table })
    }

    #[expect(clippy::too_many_arguments, reason = "each is a part of the reply")]
    fn opened(
        &self,
        handle: &Handle,
        head: Head,
        rev: u64,
        wave: Wave,
        before: &Ledger,
        seeds: &[Seed],
        continuity: Continuity,
    ) -> Result<Opened, LogicalError> {
        let ledger = wave.scope.ledger;
        let added = added(before, &ledger);
        let known = known(before, seeds);
        let held = Arc::new(Held::of(handle.clone(), head, ledger, rev, &self.shelf)?);
        self.held.insert((handle.clone(), rev), Arc::clone(&held));
        Ok(Opened { held, table: wave.table, added, known, before: before.clone(), continuity })
    }
}

fn leads(key: &Key, to: &Handle, life: Duration) -> Vec<(Key, Write)> {
    vec![(key.clone(), Write::set(SESSION, to.to_string())), (key.clone(), Write::Live(life))]
}

fn digests(catalogs: &Catalogs) -> std::collections::BTreeMap<String, String> {
    catalogs.iter().map(|(api, loaded)| (api.to_owned(), loaded.digest.clone())).collect()
}

fn added(before: &Ledger, after: &Ledger) -> Vec<Added> {
    let entity = |(index, seed): (usize, &Seed)| Added {
        symbol: format!("e{}", index + 1),
        name: format!("{}::{}", seed.api, seed.entity),
    };
    let member = |letter: char| {
        move |(index, member): (usize, &Member)| Added {
            symbol: format!("{letter}{}", index + 1),
            name: format!("{}::{}.{}", member.owner.api, member.owner.entity, member.name),
        }
    };
    let entities = after.entities.iter().enumerate().skip(before.entities.len()).map(entity);
    let relations = after.relations.iter().enumerate().skip(before.relations.len()).map(member('r'));
    let methods = after.methods.iter().enumerate().skip(before.methods.len()).map(member('m'));
    entities.chain(relations).chain(methods).collect()
}

fn known(ledger: &Ledger, seeds: &[Seed]) -> Vec<Added> {
    let all = added(&Ledger { entities: Vec::new(), ..ledger.clone() }, ledger);
    let names: Vec<_> = seeds.iter().map(|seed| format!("{}::{}", seed.api, seed.entity)).collect();
    all.into_iter().filter(|one| names.contains(&one.name)).collect()
}

/// Up to a few milliseconds, longer in later rounds, so that those who meet do not meet again.
async fn pause(round: u32) {
    let jitter = random().bytes().map(u64::from).sum::<u64>() % 64;
    tokio::time::sleep(Duration::from_micros((100 + 30 * jitter) * u64::from(round.min(8)))).await;
}
