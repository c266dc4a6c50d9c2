//! How much one caller may use: rates and quotas by principal, tenant and profile, shared by all pods; calls in flight; and, for
//! requests without a login, the rate of an address. It says whether and when; what that looks like on the wire is `edge`'s.

mod account;
mod address;
mod book;
mod budget;
mod class;
mod day;
mod ledger;
mod neighbours;
mod seats;
mod strangers;

pub use address::Proxies;
pub use budget::{Admitted, Refused};
pub use class::{Asked, Class};
pub use neighbours::Neighbours;
pub use seats::{Crowded, Seat};
pub use strangers::Strangers;

use crate::mcp::Principal;
use crate::store::Store;
use crate::telemetry::metrics;
use account::Settlement;
use book::Book;
use budget::Budget;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

/// A rate: `burst` units at once, then one more each `every`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// In whole microseconds, at least one.
    pub every: Duration,
    pub burst: u32,
}

/// The rates of one kind of limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paces {
    /// Of all requests together.
    pub all: Option<Pace>,
    /// Of each class, in the order of [`Class::ALL`].
    pub classes: [Option<Pace>; 4],
}

impl Paces {
    fn is_none(&self) -> bool {
        *self == Paces::default()
    }
}

/// Most of something for one principal and for one tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Most {
    pub principal: Option<u32>,
    pub tenant: Option<u32>,
}

/// What happens while the store is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outage {
    /// Each pod counts by itself, by the whole limit.
    #[default]
    Open,
    /// What has a limit is refused.
    Closed,
}

/// What is limited, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub principal: Paces,
    pub tenant: Paces,
    /// Of each profile, by its name.
    pub profiles: HashMap<String, Paces>,
    /// Calls in a day.
    pub quotas: Most,
    /// Calls in flight in this pod.
    pub seats: Most,
    pub outage: Outage,
    /// Whether other pods count too.
    pub shared: bool,
}

impl Settings {
    fn is_none(&self) -> bool {
        let none = Most::default();
        let rates = [&self.principal, &self.tenant].into_iter().chain(self.profiles.values());
        rates.into_iter().all(Paces::is_none) && self.quotas == none && self.seats == none
    }
}

/// Whose a limit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Principal,
    Tenant,
    Profile,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Principal => "principal",
            Kind::Tenant => "tenant",
            Kind::Profile => "profile",
        }
    }
}

/// The limits of callers in this pod.
pub struct Limits {
    settings: Settings,
    settlement: Arc<Settlement>,
    book: Book,
}

impl Limits {
    /// `None` where nothing is limited: then nothing is counted either. `tasks`: what runs on to the end of the pod.
    pub fn new(settings: Settings, store: Arc<dyn Store>, tasks: TaskTracker) -> Option<Limits> {
        if settings.is_none() {
            return None;
        }
        let mode = Mode::default();
        mode.set(false, settings.outage);
        let settlement = Arc::new(Settlement { store, tasks, outage: settings.outage, mode });
        Some(Limits { settings, settlement, book: Book::default() })
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Asks for a caller's requests. All limits grant it, or none is charged.
    pub async fn ask(
        &self,
        principal: &Arc<Principal>,
        profile: &Arc<str>,
        asked: Asked,
    ) -> Result<Admitted, Refused> {
        let budget = self.budget(principal, profile);
        budget.ask(&self.settlement, asked).await.inspect_err(|refused| refused.count(asked.chiefly()))
    }

    /// Whether a request would be refused, before it is read. `class`: where it is known already.
    pub fn refuses(
        &self,
        principal: &Arc<Principal>,
        profile: &Arc<str>,
        class: Option<Class>,
    ) -> Option<Refused> {
        let refused = self.budget(principal, profile).refuses(class)?;
        refused.count(class.unwrap_or(Class::Call));
        Some(refused)
    }

    /// A place among a caller's calls in flight.
    pub fn seat(&self, principal: &Arc<Principal>, profile: &Arc<str>) -> Result<Option<Seat>, Crowded> {
        if self.settings.seats == Most::default() {
            return Ok(None);
        }
        self.budget(principal, profile).seat().map(Some).inspect_err(|crowded| {
            metrics().limited.with_label_values(&[crowded.limit, Class::Call.word()]).inc();
        })
    }

    fn budget(&self, principal: &Arc<Principal>, profile: &Arc<str>) -> Arc<Budget> {
        self.book.budget(&self.settings, principal, profile, Instant::now())
    }
}

/// Who counts now, for the metric.
#[derive(Default)]
struct Mode(AtomicU8);

impl Mode {
    const WORDS: [&str; 3] = ["shared", "local", "closed"];

    fn set(&self, away: bool, outage: Outage) {
        let mode = match (away, outage) {
            (false, _) => 0,
            (true, Outage::Open) => 1,
            (true, Outage::Closed) => 2,
        };
        // One more than the mode: zero is none yet.
        if self.0.swap(mode + 1, Ordering::AcqRel) == mode + 1 {
            return;
        }
        if away {
            tracing::warn!(mode = Mode::WORDS[usize::from(mode)], "limits are not shared: the store is away");
        }
        for (n, word) in Mode::WORDS.iter().enumerate() {
            metrics().limits_mode.with_label_values(&[word]).set(i64::from(n == usize::from(mode)));
        }
    }
}

#[cfg(test)]
mod tests;
