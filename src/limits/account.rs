//! One limit of one caller in this pod, and the task that settles it with the store while it is in use. No request waits for the
//! store, save where the limit is so near that only the store can say.

use super::ledger::{AHEAD, Charged, Ledger, Terms, Verdict};
use super::{Kind, Mode, Outage, day};
use crate::store::{Grant, Key, Rate, Store, StoreError};
use crate::telemetry::metrics;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::task::TaskTracker;

/// How long what was admitted may be untold, where much may still be admitted.
const PACE: Duration = Duration::from_millis(50);
/// Quotas by day are told of more rarely, for telling costs more.
const PACE_OF_DAY: Duration = Duration::from_millis(500);
/// A request waits no longer for what the store says.
const PATIENCE: Duration = Duration::from_millis(100);
/// What is dry for longer is not waited for.
const LONG: Duration = Duration::from_secs(1);
/// How often a store that is away is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// What a limit is counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    Rate,
    Day,
}

pub(super) struct Account {
    pub kind: Kind,
    pub measure: Measure,
    pub terms: Terms,
    /// Names the limit and whose it is.
    name: Arc<str>,
    ledger: Mutex<Ledger>,
    settling: Mutex<bool>,
    /// What was asked of the store is answered.
    told: Notify,
    /// The store must be asked before the pace says so.
    urgent: Notify,
}

/// What accounts are settled with.
pub(super) struct Settlement {
    pub store: Arc<dyn Store>,
    pub tasks: TaskTracker,
    pub outage: Outage,
    pub mode: Mode,
}

impl Account {
    /// `name`: unique to the limit and whose it is.
    pub fn new(kind: Kind, measure: Measure, terms: Terms, name: Arc<str>) -> Account {
        let ledger = Mutex::new(Ledger::new(&terms, Instant::now()));
        let (told, urgent) = (Notify::new(), Notify::new());
        Account { kind, measure, terms, name, ledger, settling: Mutex::new(false), told, urgent }
    }

    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("no holder of a ledger panics")
    }

    /// Asks for `cost` units, at once.
    pub fn ask(self: &Arc<Self>, with: &Arc<Settlement>, cost: u32, now: Instant) -> Verdict {
        let mut ledger = self.ledger();
        let verdict = match ledger.ask(&self.terms, cost, now) {
            Verdict::Away if with.outage == Outage::Open => ledger.ask_alone(&self.terms, cost, now),
            verdict => verdict,
        };
        let (due, urgent) = (ledger.is_due(now), ledger.is_urgent() || verdict == Verdict::Unsure);
        drop(ledger);
        if due {
            self.settle_soon(with, urgent);
        }
        verdict
    }

    /// As [`Account::ask`]; where only the store can say, what it says.
    pub async fn ask_surely(self: &Arc<Self>, with: &Arc<Settlement>, cost: u32) -> Verdict {
        let verdict = self.ask(with, cost, Instant::now());
        if verdict != Verdict::Unsure {
            return verdict;
        }
        let (until, mut heard) = (Instant::now() + PATIENCE, false);
        loop {
            let mut told = pin!(self.told.notified());
            // From here on nothing that is told is missed.
            told.as_mut().enable();
            let verdict = self.ask(with, cost, Instant::now());
            if verdict != Verdict::Unsure {
                return verdict;
            }
            if timeout_at(until, told).await.is_ok() {
                heard = true;
            } else {
                return match with.outage {
                    // It answers, but others were quicker each time.
                    _ if heard => Verdict::No { after: AHEAD },
                    Outage::Open => self.ledger().ask_alone(&self.terms, cost, Instant::now()),
                    Outage::Closed => Verdict::Away,
                };
            }
        }
    }

    pub fn give_back(&self, cost: u32) {
        self.ledger().give_back(cost);
    }

    pub fn refuses(&self, now: Instant) -> Option<Duration> {
        self.ledger().refuses(now)
    }

    pub fn remaining(&self, now: Instant) -> u32 {
        self.ledger().remaining(&self.terms, now)
    }

    fn settle_soon(self: &Arc<Self>, with: &Arc<Settlement>, urgent: bool) {
        let mut settling = self.settling.lock().expect("no holder of a flag panics");
        if !*settling {
            *settling = true;
            drop(settling);
            let (account, with) = (self.clone(), with.clone());
            let tasks = with.tasks.clone();
            tasks.spawn(async move { account.settle(&with).await });
        }
        if urgent {
            self.urgent.notify_one();
        }
    }

    /// Tells the store what was admitted, and asks for more, as long as there is anything to tell.
    async fn settle(&self, with: &Settlement) {
        let pace = if self.measure == Measure::Day { PACE_OF_DAY } else { PACE };
        loop {
            let dry = self.ledger().dry_until().filter(|dry| *dry > Instant::now());
            match dry {
                // Who asks then begins another task: a pod that ends waits for none.
                Some(dry) if dry > Instant::now() + LONG => {
                    *self.settling.lock().expect("no holder of a flag panics") = false;
                    return;
                }
                // Nothing is to be had before, however urgent it is.
                Some(dry) => tokio::time::sleep_until(dry).await,
                None => drop(timeout(pace, self.urgent.notified()).await),
            }
            {
                // Under the flag, so that who asks meanwhile finds either this task, or none and begins another.
                let mut settling = self.settling.lock().expect("no holder of a flag panics");
                if self.ledger().is_quiet() {
                    *settling = false;
                    return;
                }
            }
            let (demand, owed) = {
                let (mut ledger, now) = (self.ledger(), Instant::now());
                let demand = ledger.demand(&self.terms, now);
                ledger.begin(now);
                (demand, ledger.owed())
            };
            let charged = self.charge(with, demand, owed).await;
            let came_to = match &charged {
                Ok(charged) if charged.granted >= demand => "granted",
                Ok(Charged { granted: 0, .. }) => "refused",
                Ok(_) => "partly",
                Err(_) => "away",
            };
            metrics().limit_leases.with_label_values(&[came_to]).inc();
            let went = charged.is_err();
            {
                let (mut ledger, now) = (self.ledger(), Instant::now());
                match charged {
                    Ok(charged) => ledger.charged(&self.terms, charged, now),
                    Err(_) => ledger.went_away(),
                }
            }
            with.mode.set(went, with.outage);
            self.told.notify_waiters();
            if went {
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    async fn charge(&self, with: &Settlement, demand: u32, owed: u32) -> Result<Charged, StoreError> {
        match self.measure {
            Measure::Rate => self.charge_rate(&*with.store, demand).await,
            Measure::Day => day::charge(&*with.store, &self.name, self.terms.burst, demand, owed).await,
        }
    }

    /// As many of `demand` units as there are.
    async fn charge_rate(&self, store: &dyn Store, demand: u32) -> Result<Charged, StoreError> {
        let Terms { every, burst, .. } = self.terms;
        let admit = |cost| store.admit(Key::new(self.name.clone(), ""), Rate { every, burst, cost });
        // What a pod that has too little takes at once: fewer questions than units, where many are asked for.
        let batch = (AHEAD.as_micros() / every.as_micros().max(1)).clamp(1, u128::from(demand.max(1)));
        let batch = u32::try_from(batch).unwrap_or(1);
        let dry = |after: Duration| Some(after.max(Duration::from_millis(1)));
        let after = match admit(demand).await? {
            Grant::Yes { left: 0 } if demand > 0 => {
                return Ok(Charged { granted: demand, left: 0, dry: dry(every * batch) });
            }
            Grant::Yes { left } => return Ok(Charged { granted: demand, left, dry: None }),
            Grant::No { after } => after,
        };
        let lacking = after.as_micros().div_ceil(every.as_micros().max(1));
        let there = demand.saturating_sub(u32::try_from(lacking).unwrap_or(u32::MAX));
        if there > 0
            && let Grant::Yes { left } = admit(there).await?
        {
            return Ok(Charged { granted: there, left, dry: dry(every * batch) });
        }
        Ok(Charged {
            granted: 0,
            left: 0,
            dry: dry(after.saturating_sub(every * (demand - batch.min(demand)))),
        })
    }

    /// Whether it may be forgotten: nobody has used it for `idle`, and the store knows all of it.
    pub fn is_idle(&self, now: Instant, idle: Duration) -> bool {
        let ledger = self.ledger();
        let idle = now.saturating_duration_since(ledger.used) >= idle && ledger.is_even(&self.terms, now);
        drop(ledger);
        idle && !*self.settling.lock().expect("no holder of a flag panics")
    }
}
