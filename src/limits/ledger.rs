//! One limit as one pod keeps it between two questions to the store: what it has admitted on account, what it may yet, and
//! when there is more. Arithmetic alone, told what time it is; it asks nobody.

use super::book::IDLE;
use crate::store::Rate;
use std::time::Duration;
use tokio::time::Instant;

/// What a pod in need takes at once: what it will need for about so long.
pub(super) const AHEAD: Duration = Duration::from_millis(100);

/// A limit's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// The time in which one unit comes back; of a quota by day, how far its units are apart.
    pub every: Duration,
    /// Whether units come back one by one, and not all at the end of the day.
    pub returns: bool,
    /// The most that can be had at once.
    pub burst: u32,
    /// A pod admits one part in so many of what was left before it asks again.
    pub share: u32,
}

/// What a limit says to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Yes,
    /// Nothing is to be had before this has passed. `Duration::MAX`: never, it is more than can be had at once.
    No {
        after: Duration,
    },
    /// The store knows, and is to be asked.
    Unsure,
    /// The store does not answer.
    Away,
}

/// What the store said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Charged {
    /// So many of the units that were asked for.
    pub granted: u32,
    /// So many are left for whoever asks next.
    pub left: u32,
    /// Nothing more is to be had for so long.
    pub dry: Option<Duration>,
}

#[derive(Debug)]
pub(super) struct Ledger {
    /// Units admitted here that the store was not told of yet; below zero: it was told of so many ahead.
    owed: i64,
    /// The most that may be owed.
    credit: i64,
    /// The store had nothing left, and will have nothing before.
    dry: Option<Instant>,
    /// What was asked for since the store was asked, whatever came of it.
    asked: u64,
    /// The most that one request asked for and the store must be asked about.
    wanted: u32,
    /// When that was.
    since: Instant,
    /// What was left then for all pods, of which some was admitted here since.
    left: i64,
    /// The store does not answer.
    away: bool,
    /// While it does not: when this pod's own limit is full again.
    own: Option<Instant>,
    pub(super) used: Instant,
}

impl Ledger {
    /// A limit of which nothing is known: a share of its burst is lent, unless it may be one that was used up and forgotten here
    /// before it had come back, which the store knows.
    pub fn new(terms: &Terms, now: Instant) -> Ledger {
        let left = i64::from(terms.burst);
        let lent = terms.returns && terms.every.saturating_mul(terms.burst) <= IDLE;
        Ledger {
            owed: 0,
            credit: if lent { left / i64::from(terms.share) } else { 0 },
            dry: None,
            asked: 0,
            wanted: 0,
            since: now,
            left,
            away: false,
            own: None,
            used: now,
        }
    }

    /// Asks for `cost` units. Nothing is taken unless it is granted.
    pub fn ask(&mut self, terms: &Terms, cost: u32, now: Instant) -> Verdict {
        self.used = now;
        if cost > terms.burst {
            return Verdict::No { after: Duration::MAX };
        }
        self.asked = self.asked.saturating_add(u64::from(cost));
        if self.away {
            return Verdict::Away;
        }
        let owed = self.owed + i64::from(cost);
        if owed <= self.credit {
            self.owed = owed;
            return Verdict::Yes;
        }
        match self.dry {
            Some(dry) if now < dry => Verdict::No { after: dry - now },
            _ => {
                self.wanted = self.wanted.max(cost);
                Verdict::Unsure
            }
        }
    }

    /// Gives back what was granted to a request that another limit refused.
    pub fn give_back(&mut self, cost: u32) {
        if !self.away {
            self.owed -= i64::from(cost);
        }
    }

    /// Whether a request of one unit would be refused, and until when.
    pub fn refuses(&self, now: Instant) -> Option<Duration> {
        let dry = self.dry.filter(|dry| now < *dry && self.owed >= self.credit && !self.away)?;
        Some(dry - now)
    }

    /// Judges by this pod alone.
    pub fn ask_alone(&mut self, terms: &Terms, cost: u32, now: Instant) -> Verdict {
        let rate = Rate { every: terms.every, burst: terms.burst, cost };
        let (grant, own) = rate.judge(self.own, now);
        self.own = own;
        match grant {
            crate::store::Grant::Yes { .. } => Verdict::Yes,
            crate::store::Grant::No { after } => Verdict::No { after },
        }
    }

    /// Whether the store must hear of it at once, for little may be admitted until it did.
    pub fn is_urgent(&self) -> bool {
        self.owed * 2 > self.credit
    }

    /// Whether there is something to tell or to ask. While it is dry, asking is of no use.
    pub fn is_due(&self, now: Instant) -> bool {
        let dry = self.dry.is_some_and(|dry| now < dry);
        !dry && (self.owed > 0 || self.asked > 0)
    }

    /// Whether nobody has asked since the store was asked, and nothing is owed that it could take.
    pub fn is_quiet(&self) -> bool {
        self.asked == 0 && (self.owed <= 0 || self.dry.is_some())
    }

    /// Whether nothing is lost where it is forgotten: there may be more to be had, and what was not told is back by itself.
    pub fn is_even(&self, terms: &Terms, now: Instant) -> bool {
        let back = terms.every.saturating_mul(self.owed());
        self.dry.is_none_or(|dry| now.saturating_duration_since(dry) >= back && now >= dry)
    }

    pub fn dry_until(&self) -> Option<Instant> {
        self.dry
    }

    /// What was admitted and the store was not told of.
    pub fn owed(&self) -> u32 {
        u32::try_from(self.owed.max(0)).unwrap_or(u32::MAX)
    }

    /// What the store is to be asked for: what is owed, and what the next [`AHEAD`] will need where credit does not carry that.
    pub fn demand(&mut self, terms: &Terms, now: Instant) -> u32 {
        let elapsed = now.saturating_duration_since(self.since).max(Duration::from_millis(10));
        let soon = self.asked as f64 * AHEAD.as_secs_f64() / elapsed.as_secs_f64();
        let most = (AHEAD.as_secs_f64() / terms.every.as_secs_f64().max(1e-6)).ceil();
        let soon = soon.ceil().min(most).max(1.0) as i64;
        let tight = self.asked > 0 && self.credit < soon;
        let ahead = i64::from(self.wanted).max(if tight { soon } else { 0 });
        (self.owed + ahead).clamp(0, i64::from(terms.burst)) as u32
    }

    /// The question is on its way: what is asked for from now on belongs to the next.
    pub fn begin(&mut self, now: Instant) {
        (self.asked, self.wanted, self.since) = (0, 0, now);
    }

    /// Takes what the store said.
    pub fn charged(&mut self, terms: &Terms, charged: Charged, now: Instant) {
        self.owed -= i64::from(charged.granted);
        self.left = i64::from(charged.left);
        self.credit = self.left / i64::from(terms.share);
        self.dry = charged.dry.map(|dry| now + dry);
        (self.away, self.own) = (false, None);
    }

    /// The store did not answer.
    pub fn went_away(&mut self) {
        self.away = true;
    }

    /// How many units are left to all, as far as is known here.
    pub fn remaining(&self, terms: &Terms, now: Instant) -> u32 {
        let back = match terms.returns {
            true => now.saturating_duration_since(self.since).as_micros() / terms.every.as_micros().max(1),
            false => 0,
        };
        let left =
            self.left.saturating_sub(self.owed).saturating_add(i64::try_from(back).unwrap_or(i64::MAX));
        left.clamp(0, i64::from(terms.burst)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms = Terms { every: Duration::from_millis(20), returns: true, burst: 50, share: 4 };

    fn yes(ledger: &mut Ledger, now: Instant) -> usize {
        (0..1000).take_while(|_| ledger.ask(&TERMS, 1, now) == Verdict::Yes).count()
    }

    #[test]
    fn a_limit_that_is_not_known_lends_a_share_and_then_asks() {
        let now = Instant::now();
        let mut ledger = Ledger::new(&TERMS, now);
        assert_eq!(yes(&mut ledger, now), 12);
        assert_eq!(ledger.ask(&TERMS, 1, now), Verdict::Unsure);
        assert!(ledger.is_urgent() && ledger.is_due(now));
        // What it owes, and what one request waits for.
        assert_eq!(ledger.demand(&TERMS, now), 13);
        ledger.begin(now);
        ledger.charged(&TERMS, Charged { granted: 13, left: 37, dry: None }, now);
        assert_eq!(yes(&mut ledger, now), 10);
    }

    #[test]
    fn a_limit_that_comes_back_slowly_lends_nothing_before_the_store_was_asked() {
        let now = Instant::now();
        let slow = Terms { every: Duration::from_secs(36), burst: 100, ..TERMS };
        let day = Terms { returns: false, ..TERMS };
        for terms in [slow, day] {
            let mut ledger = Ledger::new(&terms, now);
            assert_eq!(ledger.ask(&terms, 1, now), Verdict::Unsure);
            ledger.begin(now);
            ledger.charged(&terms, Charged { granted: 1, left: 40, dry: None }, now);
            assert_eq!(ledger.ask(&terms, 1, now), Verdict::Yes);
        }
    }

    #[test]
    fn what_is_dry_or_owes_is_not_forgotten_before_it_has_come_back() {
        let now = Instant::now();
        let mut ledger = Ledger::new(&TERMS, now);
        assert!(ledger.is_even(&TERMS, now));
        yes(&mut ledger, now);
        ledger.begin(now);
        ledger.charged(&TERMS, Charged { granted: 10, left: 0, dry: Some(Duration::from_secs(9)) }, now);
        assert!(!ledger.is_even(&TERMS, now + Duration::from_millis(8999)));
        // Two are owed.
        assert!(!ledger.is_even(&TERMS, now + Duration::from_millis(9039)));
        assert!(ledger.is_even(&TERMS, now + Duration::from_millis(9040)));
    }

    #[test]
    fn what_is_dry_is_refused_until_it_is_not_and_what_was_lent_is_paid_first() {
        let now = Instant::now();
        let mut ledger = Ledger::new(&TERMS, now);
        yes(&mut ledger, now);
        ledger.begin(now);
        let dry = Some(Duration::from_millis(100));
        ledger.charged(&TERMS, Charged { granted: 10, left: 0, dry }, now);
        assert_eq!(ledger.ask(&TERMS, 1, now), Verdict::No { after: Duration::from_millis(100) });
        assert_eq!(ledger.refuses(now), dry);
        assert!(!ledger.is_due(now));
        let later = now + Duration::from_millis(100);
        assert_eq!(ledger.ask(&TERMS, 1, later), Verdict::Unsure);
        // Two that it owes and as many as two that asked in 100 ms will ask again.
        assert_eq!(ledger.demand(&TERMS, later), 4);
        ledger.begin(later);
        ledger.charged(&TERMS, Charged { granted: 4, left: 0, dry }, later);
        assert_eq!(yes(&mut ledger, later), 2);
    }

    #[test]
    fn a_pod_takes_no_more_ahead_than_the_limit_gives_in_that_time() {
        let now = Instant::now();
        let mut ledger = Ledger::new(&TERMS, now);
        ledger.charged(&TERMS, Charged { granted: 0, left: 0, dry: None }, now);
        for _ in 0..1000 {
            ledger.ask(&TERMS, 1, now);
        }
        assert_eq!(ledger.demand(&TERMS, now + AHEAD), 5);
    }

    #[test]
    fn alone_a_pod_gives_the_whole_limit() {
        let now = Instant::now();
        let mut ledger = Ledger::new(&TERMS, now);
        ledger.went_away();
        assert_eq!(ledger.ask(&TERMS, 1, now), Verdict::Away);
        let granted = (0..1000).filter(|_| ledger.ask_alone(&TERMS, 1, now) == Verdict::Yes).count();
        assert_eq!(granted, 50);
        assert_eq!(ledger.ask_alone(&TERMS, 1, now + Duration::from_millis(20)), Verdict::Yes);
        ledger.charged(&TERMS, Charged { granted: 0, left: 50, dry: None }, now);
        assert_eq!(ledger.ask(&TERMS, 1, now), Verdict::Yes);
    }

    #[test]
    fn more_than_can_be_had_at_once_is_never_had() {
        let now = Instant::now();
        let mut ledger = Ledger::new(&TERMS, now);
        assert_eq!(ledger.ask(&TERMS, 51, now), Verdict::No { after: Duration::MAX });
    }
}
