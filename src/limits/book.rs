//! Who has which limits in this pod: made when a caller is first seen, forgotten some time after they were last.

use super::account::{Account, Measure};
use super::budget::{Budget, Line};
use super::class::Class;
use super::ledger::Terms;
use super::seats::Row;
use super::{Kind, Pace, Paces, Settings};
use crate::mcp::Principal;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// Budgets, and accounts, that are kept: more callers than that at a time are forgotten sooner than they should.
const MOST: usize = 50_000;
/// What nobody has used for so long is forgotten.
pub(super) const IDLE: Duration = Duration::from_secs(300);
/// Where there are too many.
const IDLE_IF_FULL: Duration = Duration::from_secs(1);
/// How often those that are idle are looked for.
const SWEEP: Duration = Duration::from_secs(30);
/// What a pod admits of what was left before it asks again, where others do too: one part in four.
const SHARE: u32 = 4;

type Budgets = HashMap<(Arc<str>, Arc<Principal>), (Arc<Budget>, Instant)>;

#[derive(Default)]
pub(super) struct Book(Mutex<Pages>);

#[derive(Default)]
struct Pages {
    budgets: Budgets,
    accounts: HashMap<Arc<str>, Arc<Account>>,
    rows: HashMap<Arc<str>, Arc<Row>>,
    swept: Option<Instant>,
}

impl Book {
    /// The limits of `principal` at `profile`.
    pub fn budget(
        &self,
        settings: &Settings,
        principal: &Arc<Principal>,
        profile: &Arc<str>,
        now: Instant,
    ) -> Arc<Budget> {
        let mut pages = self.0.lock().expect("no holder of the book panics");
        let key = (profile.clone(), principal.clone());
        if let Some((budget, used)) = pages.budgets.get_mut(&key) {
            *used = now;
            return budget.clone();
        }
        pages.sweep(now);
        let budget = Arc::new(pages.write(settings, principal, profile));
        pages.budgets.insert(key, (budget.clone(), now));
        budget
    }
}

impl Pages {
    fn write(&mut self, settings: &Settings, principal: &Principal, profile: &str) -> Budget {
        let mut lines = Vec::new();
        let whose = |kind| match kind {
            Kind::Principal => principal.identity(),
            Kind::Tenant => principal.tenant.to_string(),
            Kind::Profile => profile.to_owned(),
        };
        let share = if settings.shared { SHARE } else { 1 };
        let none = Paces::default();
        let of_profile = settings.profiles.get(profile).unwrap_or(&none);
        let kinds = [
            (Kind::Principal, &settings.principal),
            (Kind::Tenant, &settings.tenant),
            (Kind::Profile, of_profile),
        ];
        for (kind, paces) in kinds {
            let classes = Class::ALL.into_iter().map(Some).zip(paces.classes);
            for (class, pace) in std::iter::once((None, paces.all)).chain(classes) {
                let Some(Pace { every, burst }) = pace else { continue };
                let name =
                    format!("lim:{}:{}:{}", kind.word(), class.map_or("all", Class::word), whose(kind));
                let terms = Terms { every, returns: true, burst, share };
                lines.push(Line { account: self.account(kind, Measure::Rate, terms, name), class });
            }
        }
        for (kind, most) in
            [(Kind::Principal, settings.quotas.principal), (Kind::Tenant, settings.quotas.tenant)]
        {
            let Some(burst) = most else { continue };
            let name = format!("quota:{}:{}", kind.word(), whose(kind));
            let every = Duration::from_secs(24 * 3600) / burst.max(1);
            let terms = Terms { every, returns: false, burst, share };
            lines.push(Line {
                account: self.account(kind, Measure::Day, terms, name),
                class: Some(Class::Call),
            });
        }
        let mut rows = Vec::new();
        let seats = [
            (Kind::Principal, "principal_calls", settings.seats.principal),
            (Kind::Tenant, "tenant_calls", settings.seats.tenant),
        ];
        for (kind, limit, most) in seats {
            let Some(most) = most else { continue };
            let name: Arc<str> = format!("{limit}:{}", whose(kind)).into();
            let row = self.rows.entry(name).or_insert_with(|| Arc::new(Row::new(limit, most)));
            rows.push(row.clone());
        }
        Budget::new(lines, rows)
    }

    fn account(&mut self, kind: Kind, measure: Measure, terms: Terms, name: String) -> Arc<Account> {
        let name: Arc<str> = name.into();
        let new = || Arc::new(Account::new(kind, measure, terms, name.clone()));
        self.accounts.entry(name.clone()).or_insert_with(new).clone()
    }

    fn sweep(&mut self, now: Instant) {
        let full = self.budgets.len() >= MOST;
        let due = self.swept.is_none_or(|swept| now.saturating_duration_since(swept) >= SWEEP);
        if !full && !due {
            return;
        }
        self.swept = Some(now);
        let idle = if full { IDLE_IF_FULL } else { IDLE };
        self.budgets.retain(|_, (_, used)| now.saturating_duration_since(*used) < idle);
        if self.budgets.len() >= MOST {
            // All are in use. Their accounts stay while they are settled, so that nothing is lost but time.
            self.budgets.clear();
        }
        self.accounts.retain(|_, account| Arc::strong_count(account) > 1 || !account.is_idle(now, idle));
        self.rows.retain(|_, row| Arc::strong_count(row) > 1 || !row.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_that_are_idle_are_forgotten_and_many_are_bounded() {
        let pace = Some(Pace { every: Duration::from_secs(1), burst: 10 });
        let settings = Settings { principal: Paces { all: pace, ..Paces::default() }, ..Settings::default() };
        let book = Book::default();
        let profile: Arc<str> = "".into();
        let begun = Instant::now();
        let see = |n: usize, now| {
            let principal = Arc::new(Principal::minted("t", "i", &n.to_string()));
            book.budget(&settings, &principal, &profile, now)
        };
        let first = see(0, begun);
        assert!(Arc::ptr_eq(&first, &see(0, begun)));
        for n in 0..MOST + 10 {
            see(n, begun);
        }
        let kept = || book.0.lock().unwrap().budgets.len();
        assert!(kept() <= MOST, "{}", kept());
        see(0, begun + IDLE);
        assert_eq!(kept(), 1);
    }

    #[test]
    fn a_tenants_limit_is_one_for_all_of_its_principals() {
        let pace = Some(Pace { every: Duration::from_secs(1), burst: 10 });
        let tenant = Paces { all: pace, ..Paces::default() };
        let settings = Settings { tenant, principal: tenant, ..Settings::default() };
        let book = Book::default();
        for subject in ["a", "b"] {
            book.budget(
                &settings,
                &Arc::new(Principal::minted("t", "i", subject)),
                &"".into(),
                Instant::now(),
            );
        }
        assert_eq!(book.0.lock().unwrap().accounts.len(), 3);
    }
}
