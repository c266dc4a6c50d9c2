//! All limits that a caller has at a profile, asked as one.

use super::account::{Account, Measure, Settlement};
use super::class::{Asked, Class};
use super::ledger::Verdict;
use super::seats::{Crowded, Row, Seat};
use crate::telemetry::metrics;
use http::HeaderValue;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A day in seconds, as policies say it.
const DAY: u64 = 86_400;

/// One limit, and what it counts.
pub(super) struct Line {
    pub account: Arc<Account>,
    /// The class that it counts; `None`: all.
    pub class: Option<Class>,
}

pub(super) struct Budget {
    lines: Vec<Line>,
    rows: Vec<Arc<Row>>,
    /// `RateLimit-Policy` of a request, by its class.
    policies: [HeaderValue; 4],
}

/// What an admitted request is told of its limits (draft-ietf-httpapi-ratelimit-headers).
#[derive(Clone, Debug)]
pub struct Admitted {
    /// `RateLimit-Policy`; empty where no limit counts the request.
    pub policy: HeaderValue,
    /// `RateLimit` of the limit of which least is left.
    pub left: HeaderValue,
}

/// Why a request is refused.
#[derive(Clone, Debug)]
pub enum Refused {
    /// A limit is used up.
    Spent {
        /// For metrics: `principal`, `tenant`, `profile`, `principal_day` or `tenant_day`.
        limit: &'static str,
        /// When there will be more; at least a second, in whole ones. `None`: never, for more is asked for than can be had at once.
        after: Option<u64>,
        /// `RateLimit-Policy` and `RateLimit`.
        policy: HeaderValue,
        left: HeaderValue,
    },
    /// The store is away, and without it nothing is admitted.
    Away,
}

impl Refused {
    pub(super) fn count(&self, class: Class) {
        let limit = match self {
            Refused::Spent { limit, .. } => limit,
            Refused::Away => "store_away",
        };
        metrics().limited.with_label_values(&[limit, class.word()]).inc();
    }
}

/// Units that were granted and are given back unless the request is admitted as a whole.
struct Granted<'a> {
    of: &'a [Line],
    asked: Asked,
    lines: usize,
}

impl Drop for Granted<'_> {
    fn drop(&mut self) {
        for line in &self.of[..self.lines] {
            line.account.give_back(line.cost(self.asked));
        }
    }
}

impl Line {
    fn cost(&self, asked: Asked) -> u32 {
        match self.class {
            Some(class) => asked.of(class),
            None => asked.total(),
        }
    }

    fn counts(&self, class: Class) -> bool {
        self.class.is_none_or(|counted| counted == class)
    }

    /// For metrics.
    fn limit(&self) -> &'static str {
        match (self.account.measure, self.account.kind) {
            (Measure::Rate, kind) => kind.word(),
            (Measure::Day, super::Kind::Tenant) => "tenant_day",
            (Measure::Day, _) => "principal_day",
        }
    }

    /// Its name in the headers, a quoted string.
    fn name(&self) -> String {
        let kind = self.account.kind.word();
        match (self.account.measure, self.class) {
            (Measure::Day, _) => format!("\"{kind}-day\""),
            (Measure::Rate, Some(class)) => format!("\"{kind}-{}\"", class.word()),
            (Measure::Rate, None) => format!("\"{kind}\""),
        }
    }

    /// What it grants, and the time in which it does.
    fn policy(&self) -> String {
        let window = match self.account.measure {
            Measure::Day => DAY,
            Measure::Rate => seconds(self.account.terms.every.saturating_mul(self.account.terms.burst)),
        };
        format!("{};q={};w={window}", self.name(), self.account.terms.burst)
    }

    /// What is left of it, and the time until it is whole again.
    fn left(&self, left: u32, after: Option<Duration>) -> HeaderValue {
        let terms = &self.account.terms;
        let whole = match self.account.measure {
            Measure::Day => after.unwrap_or(Duration::from_secs(DAY)),
            Measure::Rate => terms.every.saturating_mul(terms.burst - left.min(terms.burst)),
        };
        text(&format!("{};r={left};t={}", self.name(), seconds(whole)))
    }
}

impl Budget {
    pub fn new(lines: Vec<Line>, rows: Vec<Arc<Row>>) -> Budget {
        let policies = Class::ALL.map(|class| {
            let mut policy = String::new();
            for line in lines.iter().filter(|line| line.counts(class)) {
                let comma = if policy.is_empty() { "" } else { ", " };
                let _ = write!(policy, "{comma}{}", line.policy());
            }
            text(&policy)
        });
        Budget { lines, rows, policies }
    }

    pub async fn ask(&self, with: &Arc<Settlement>, asked: Asked) -> Result<Admitted, Refused> {
        let mut granted = Granted { of: &self.lines, asked, lines: 0 };
        for line in &self.lines {
            let cost = line.cost(asked);
            if cost > 0 {
                let verdict = match line.account.ask(with, cost, Instant::now()) {
                    // Rare, and so kept out of what every request moves about.
                    Verdict::Unsure => Box::pin(line.account.ask_surely(with, cost)).await,
                    verdict => verdict,
                };
                match verdict {
                    Verdict::Yes => {}
                    Verdict::No { after } => return Err(self.spent(line, asked.chiefly(), after)),
                    Verdict::Unsure | Verdict::Away => return Err(Refused::Away),
                }
            }
            granted.lines += 1;
        }
        std::mem::forget(granted);
        Ok(self.admitted(asked))
    }

    /// Whether the next request would be refused, as far as that is known here.
    pub fn refuses(&self, class: Option<Class>) -> Option<Refused> {
        let now = Instant::now();
        let counts = |line: &&Line| match class {
            Some(class) => line.counts(class),
            None => line.class.is_none(),
        };
        let spent = |line: &Line| {
            line.account
                .refuses(now)
                .map(|after| (line, after))
                .map(|(line, after)| self.spent(line, class.unwrap_or(Class::Call), after))
        };
        self.lines.iter().filter(counts).find_map(spent)
    }

    pub fn seat(&self) -> Result<Seat, Crowded> {
        Seat::take(&self.rows)
    }

    fn spent(&self, line: &Line, class: Class, after: Duration) -> Refused {
        let after = (after != Duration::MAX).then_some(after);
        Refused::Spent {
            limit: line.limit(),
            after: after.map(|after| seconds(after).max(1)),
            policy: self.policies[class.index()].clone(),
            left: line.left(0, after),
        }
    }

    fn admitted(&self, asked: Asked) -> Admitted {
        let (class, now) = (asked.chiefly(), Instant::now());
        let least = self
            .lines
            .iter()
            .filter(|line| line.counts(class))
            .map(|line| (line.account.remaining(now), line))
            .min_by_key(|(left, line)| u64::from(*left) * 1_000 / u64::from(line.account.terms.burst.max(1)));
        let left = least.map_or(HeaderValue::from_static(""), |(left, line)| line.left(left, None));
        Admitted { policy: self.policies[class.index()].clone(), left }
    }
}

/// In whole ones, and none too few.
fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

fn text(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("names and numbers are visible ASCII")
}
