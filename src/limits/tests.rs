//! Pods that share one store: what they admit together, over real and short times.

use super::*;
use crate::store::{Memory, Rate};
use std::time::Instant as Wall;

fn pace(per_second: u64, burst: u32) -> Option<Pace> {
    Some(Pace { every: Duration::from_micros(1_000_000 / per_second), burst })
}

fn who(tenant: &str, subject: &str) -> Arc<Principal> {
    Arc::new(Principal::minted(tenant, "i", subject))
}

fn pods(count: usize, settings: &Settings) -> (Arc<Memory>, Vec<Arc<Limits>>) {
    let store = Arc::new(Memory::new(1 << 20));
    let pod = || {
        let settings = Settings { shared: count > 1, ..settings.clone() };
        Arc::new(Limits::new(settings, store.clone(), TaskTracker::new()).expect("something is limited"))
    };
    let pods = (0..count).map(|_| pod()).collect();
    (store, pods)
}

async fn ask(pod: &Limits, who: &Arc<Principal>, class: Class) -> Result<Admitted, Refused> {
    pod.ask(who, &"".into(), Asked::one(class)).await
}

fn limit(refused: &Refused) -> &'static str {
    match refused {
        Refused::Spent { limit, .. } => limit,
        Refused::Away => "away",
    }
}

#[tokio::test]
async fn without_any_limit_nothing_is_counted() {
    let store = Arc::new(Memory::new(1 << 20));
    let none = Settings { profiles: [("dev".to_owned(), Paces::default())].into(), ..Settings::default() };
    assert!(Limits::new(none, store, TaskTracker::new()).is_none());
}

/// Asks `pod` so often until `end`; how often it was admitted.
async fn load(pod: Arc<Limits>, a_second: u32, end: Wall) -> u32 {
    let who = who("t", "a");
    let mut beat = tokio::time::interval(Duration::from_secs(1) / a_second);
    let mut admitted = 0;
    while Wall::now() < end {
        beat.tick().await;
        admitted += u32::from(ask(&pod, &who, Class::Call).await.is_ok());
    }
    admitted
}

#[tokio::test]
async fn pods_that_are_unevenly_loaded_admit_together_what_the_limit_says() {
    let principal = Paces { all: pace(200, 20), ..Paces::default() };
    let (_, pods) = pods(3, &Settings { principal, ..Settings::default() });
    let begun = Wall::now();
    let end = begun + Duration::from_secs(3);
    let loads = [(900, 0), (90, 1), (30, 2)].map(|(often, pod)| load(pods[pod].clone(), often, end));
    let counts = futures_util::future::join_all(loads).await;
    let admitted = f64::from(counts.iter().sum::<u32>());
    let due = 20.0 + 200.0 * begun.elapsed().as_secs_f64();
    // What pods hold for a moment is not lost: over longer times it comes ever nearer.
    assert!((0.9..=1.05).contains(&(admitted / due)), "{counts:?} of {due}");
    // No pod is shut out by another that asks more often.
    assert!(counts.iter().all(|count| *count > 5), "{counts:?}");
}

#[tokio::test]
async fn a_burst_is_admitted_whole_by_one_pod_that_was_never_asked_before() {
    let tenant = Paces { all: pace(1, 20), ..Paces::default() };
    let (_, pods) = pods(3, &Settings { tenant, ..Settings::default() });
    for n in 0..20 {
        let asked = ask(&pods[0], &who("t", &n.to_string()), Class::Call).await;
        assert!(asked.is_ok(), "{n}: {asked:?}");
    }
    let refused = ask(&pods[0], &who("t", "a"), Class::Call).await.unwrap_err();
    assert_eq!(limit(&refused), "tenant");
    // Known at once, and to other pods when they ask.
    assert!(pods[0].refuses(&who("t", "b"), &"".into(), None).is_some());
    let others = async || ask(&pods[1], &who("t", "a"), Class::Call).await.is_err();
    let mut refusals = 0;
    for _ in 0..10 {
        refusals += usize::from(others().await);
    }
    assert!(refusals >= 4, "a pod lends a share of the burst at most: {refusals}");
    assert!(ask(&pods[0], &who("other", "a"), Class::Call).await.is_ok());
}

#[tokio::test]
async fn each_class_and_each_kind_has_a_limit_of_its_own_and_a_refusal_costs_the_others_nothing() {
    let [list, call] = [pace(1, 2), pace(1, 100)];
    let principal = Paces { all: pace(1, 100), classes: [call, None, list, None] };
    let (_, pods) = pods(1, &Settings { principal, ..Settings::default() });
    let a = who("t", "a");
    for n in 0..30 {
        assert_eq!(ask(&pods[0], &a, Class::List).await.is_ok(), n < 2, "{n}");
    }
    let admitted = ask(&pods[0], &a, Class::Call).await.unwrap();
    assert_eq!(admitted.policy, r#""principal";q=100;w=100, "principal-call";q=100;w=100"#);
    assert_eq!(admitted.left, r#""principal";r=97;t=3"#);
    let refused = ask(&pods[0], &a, Class::List).await.unwrap_err();
    let Refused::Spent { after: Some(1), policy, left, .. } = refused else { panic!("{refused:?}") };
    assert_eq!(policy, r#""principal";q=100;w=100, "principal-list";q=2;w=2"#);
    assert_eq!(left, r#""principal-list";r=0;t=2"#);
}

#[tokio::test]
async fn a_batch_counts_each_of_its_members_and_one_that_is_too_large_is_never_admitted() {
    let principal = Paces { all: pace(1, 10), ..Paces::default() };
    let (_, pods) = pods(1, &Settings { principal, ..Settings::default() });
    let batch = |n: usize| {
        let mut asked = Asked::default();
        (0..n).for_each(|_| asked.add(Class::Call));
        asked
    };
    let ask = async |n| pods[0].ask(&who("t", "a"), &"".into(), batch(n)).await;
    assert!(ask(8).await.is_ok());
    assert!(matches!(ask(8).await, Err(Refused::Spent { after: Some(_), .. })));
    assert!(ask(2).await.is_ok());
    assert!(matches!(ask(11).await, Err(Refused::Spent { after: None, .. })));
}

#[tokio::test]
async fn a_pod_that_ends_does_not_wait_for_limits_to_have_more() {
    let quotas = Most { tenant: Some(2), principal: None };
    let tenant = Paces { all: pace(1, 100), ..Paces::default() };
    let tasks = TaskTracker::new();
    let settings = Settings { quotas, tenant, ..Settings::default() };
    let pod = Limits::new(settings, Arc::new(Memory::new(1 << 20)), tasks.clone()).unwrap();
    while ask(&pod, &who("t", "a"), Class::Call).await.is_ok() {}
    tasks.close();
    tokio::time::timeout(Duration::from_secs(5), tasks.wait()).await.expect("all is settled soon");
}

#[tokio::test]
async fn a_quota_of_a_day_is_one_over_all_pods() {
    let quotas = Most { tenant: Some(40), principal: None };
    let (_, pods) = pods(2, &Settings { quotas, ..Settings::default() });
    let mut admitted = 0;
    for n in 0..80 {
        admitted += u32::from(ask(&pods[n % 2], &who("t", "a"), Class::Call).await.is_ok());
    }
    // Each pod may lend a quarter of what was left, once.
    assert!((40..=50).contains(&admitted), "{admitted}");
    let refused = ask(&pods[0], &who("t", "b"), Class::Call).await.unwrap_err();
    assert_eq!(limit(&refused), "tenant_day");
    assert!(ask(&pods[0], &who("t", "b"), Class::List).await.is_ok(), "calls alone are counted");
}

#[tokio::test]
async fn what_was_used_up_is_not_lent_anew_to_one_who_comes_back_after_a_while() {
    let slow = Paces { all: Some(Pace { every: Duration::from_secs(3600), burst: 8 }), ..Paces::default() };
    let quotas = Most { principal: Some(8), tenant: None };
    let settings =
        [Settings { principal: slow, ..Settings::default() }, Settings { quotas, ..Settings::default() }];
    for settings in settings.into_iter().flat_map(|one| [Settings { shared: true, ..one.clone() }, one]) {
        let settlement = Arc::new(Settlement {
            store: Arc::new(Memory::new(1 << 20)),
            tasks: TaskTracker::new(),
            outage: settings.outage,
            mode: Mode::default(),
        });
        let (book, begun) = (Book::default(), Instant::now());
        let ask = async |subject: &str, after| {
            let budget = book.budget(&settings, &who("t", subject), &"".into(), begun + after);
            budget.ask(&settlement, Asked::one(Class::Call)).await.is_ok()
        };
        for _ in 0..8 {
            assert!(ask("a", Duration::ZERO).await);
        }
        assert!(!ask("a", Duration::ZERO).await);
        for n in 1..4 {
            let after = Duration::from_secs(301) * n;
            // Whoever else comes has those who were idle forgotten.
            assert!(ask(&n.to_string(), after).await);
            assert!(!ask("a", after).await, "{n}: {settings:?}");
        }
    }
}

/// A store that does not answer.
struct Away(Memory);

impl Store for Away {
    fn get(&self, key: crate::store::Key) -> crate::store::Fut<Option<crate::store::Record>> {
        self.0.get(key)
    }
    fn near(&self, key: crate::store::Key) -> crate::store::Fut<Option<crate::store::Record>> {
        self.0.near(key)
    }
    fn commit(
        &self,
        checks: Vec<(crate::store::Key, crate::store::Check)>,
        writes: Vec<(crate::store::Key, crate::store::Write)>,
        sure: crate::store::Sure,
    ) -> crate::store::Fut<crate::store::Commit> {
        self.0.commit(checks, writes, sure)
    }
    fn take(
        &self,
        key: crate::store::Key,
        sure: crate::store::Sure,
    ) -> crate::store::Fut<Option<crate::store::Record>> {
        self.0.take(key, sure)
    }
    fn admit(&self, _: crate::store::Key, _: Rate) -> crate::store::Fut<crate::store::Grant> {
        Box::pin(async { Err(crate::store::StoreError::Away) })
    }
    fn events(
        &self,
        key: crate::store::Key,
        after: u64,
        most: u32,
    ) -> crate::store::Fut<Option<crate::store::Events>> {
        self.0.events(key, after, most)
    }
    fn mail(&self, to: crate::store::PodId, letter: bytes::Bytes) -> crate::store::Fut<bool> {
        self.0.mail(to, letter)
    }
    fn say(&self, topic: crate::store::Topic, what: bytes::Bytes) -> crate::store::Fut<()> {
        self.0.say(topic, what)
    }
    fn hear(&self, me: crate::store::PodId) -> futures_util::stream::BoxStream<'static, crate::store::Heard> {
        self.0.hear(me)
    }
    fn health(&self) -> tokio::sync::watch::Receiver<crate::store::Health> {
        self.0.health()
    }
}

#[tokio::test]
async fn without_the_store_a_pod_counts_alone_or_refuses_as_it_was_told() {
    let principal = Paces { all: pace(1, 20), ..Paces::default() };
    for (outage, least, most) in [(Outage::Open, 20, 28), (Outage::Closed, 0, 5)] {
        let store = Arc::new(Away(Memory::new(1 << 20)));
        let settings = Settings { principal, outage, shared: true, ..Settings::default() };
        let pod = Limits::new(settings, store, TaskTracker::new()).unwrap();
        let mut admitted = 0;
        let mut last = None;
        for _ in 0..60 {
            match ask(&pod, &who("t", "a"), Class::Call).await {
                Ok(_) => admitted += 1,
                Err(refused) => last = Some(refused),
            }
        }
        assert!((least..=most).contains(&admitted), "{outage:?}: {admitted}");
        let away = matches!(last, Some(Refused::Away));
        assert_eq!(away, outage == Outage::Closed, "{last:?}");
    }
}

#[tokio::test]
async fn calls_in_flight_are_bounded_by_principal_and_by_tenant() {
    let seats = Most { principal: Some(1), tenant: Some(2) };
    let (_, pods) = pods(1, &Settings { seats, ..Settings::default() });
    let seat = |subject: &str| pods[0].seat(&who("t", subject), &"".into());
    let a = seat("a").unwrap();
    assert_eq!(seat("a").unwrap_err().limit, "principal_calls");
    let _b = seat("b").unwrap();
    assert_eq!(seat("c").unwrap_err().limit, "tenant_calls");
    drop(a);
    assert!(seat("c").is_ok());
}
