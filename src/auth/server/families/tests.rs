use super::*;
use crate::auth::Epoch;
use crate::store::Memory;
use std::sync::atomic::{AtomicU32, Ordering};

const GRACE: Duration = Duration::from_secs(10);

fn grant() -> Grant {
    serde_json::from_value(json!({
        "client": "c", "name": "C", "host": "h", "resource": "r", "scope": "a b", "refresh": true,
        "person": {"subject": "s", "tenant": "t", "name": "n", "claims": {}},
    }))
    .unwrap()
}

struct Pods {
    families: [Families; 2],
    revoked: Revoked,
    answers: AtomicU32,
}

impl Pods {
    /// Two pods of one store.
    fn new(grace: Duration) -> Pods {
        Pods::of_lives(grace, Duration::from_secs(90 * 86_400))
    }

    fn of_lives(grace: Duration, longest: Duration) -> Pods {
        let lives =
            Lives { access: Duration::from_secs(600), refresh: Duration::from_secs(3600), longest, grace };
        let store: Arc<dyn Store> = Arc::new(Memory::new(8 << 20));
        let keyring = Arc::new(Keyring::random());
        let revoked = Revoked::new(store.clone(), Epoch::default());
        let families = || Families::new(store.clone(), keyring.clone(), revoked.clone(), lives);
        Pods { families: [families(), families()], revoked: revoked.clone(), answers: AtomicU32::new(0) }
    }

    async fn renew(&self, pod: usize, token: &str) -> Result<(String, String), RenewError> {
        let asked = Renewal { token, client: "c", scope: None, resource: None };
        self.renew_as(pod, asked).await
    }

    /// The number of the answer, and the next refresh token.
    async fn renew_as(&self, pod: usize, asked: Renewal<'_>) -> Result<(String, String), RenewError> {
        let answer = |_: &Grant, scope: &str, _: &str, next: &str| {
            format!("{}:{scope} {next}", self.answers.fetch_add(1, Ordering::SeqCst))
        };
        let answer = self.families[pod].renew(asked, answer).await?;
        let (number, next) = answer.rsplit_once(' ').unwrap();
        Ok((number.to_owned(), next.to_owned()))
    }
}

#[tokio::test]
async fn b095_the_same_refresh_twice_gives_the_same_answer_on_any_pod_and_later_ends_the_family() {
    let pods = Pods::new(GRACE);
    let family = random_text();
    let first = pods.families[0].begin(&family, &grant(), "i").await.unwrap().unwrap();
    let (one, other) = tokio::join!(pods.renew(0, &first), pods.renew(1, &first));
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!(one, other);
    assert_eq!(pods.renew(1, &first).await.unwrap(), one);
    // Its successor is used: now the first is none that may be shown again.
    let (_, third) = pods.renew(0, &one.1).await.unwrap();
    assert_eq!(pods.renew(0, &first).await, Err(RenewError::Invalid));
    assert!(pods.revoked.has(Revocable::Family(&family)));
    assert_eq!(pods.renew(1, &third).await, Err(RenewError::Invalid));
}

#[tokio::test]
async fn after_the_grace_a_refresh_token_that_was_used_ends_the_family() {
    let pods = Pods::new(Duration::ZERO);
    let first = pods.families[0].begin(&random_text(), &grant(), "i").await.unwrap().unwrap();
    let (_, second) = pods.renew(0, &first).await.unwrap();
    assert_eq!(pods.renew(1, &first).await, Err(RenewError::Invalid));
    assert_eq!(pods.renew(1, &second).await, Err(RenewError::Invalid));
}

#[tokio::test]
async fn nobody_ends_a_family_by_guessing_and_no_other_client_renews_it() {
    let pods = Pods::new(GRACE);
    let family = random_text();
    let first = pods.families[0].begin(&family, &grant(), "i").await.unwrap().unwrap();
    let (_, second) = pods.renew(0, &first).await.unwrap();
    for guess in
        [write(&family, 1, "guess"), write(&family, 0, "guess"), write(&family, 9, "guess"), "x".into()]
    {
        assert_eq!(pods.renew(1, &guess).await, Err(RenewError::Invalid));
    }
    let foreign = Renewal { token: &second, client: "d", scope: None, resource: None };
    assert_eq!(pods.renew_as(1, foreign).await, Err(RenewError::Invalid));
    pods.families[1].end_of(&second, "d").await.unwrap();
    assert!(!pods.revoked.has(Revocable::Family(&family)));
    assert!(pods.renew(1, &second).await.is_ok());
}

#[tokio::test]
async fn a_renewal_narrows_and_never_widens() {
    let pods = Pods::new(GRACE);
    let mut token = pods.families[0].begin(&random_text(), &grant(), "i").await.unwrap().unwrap();
    let table = [
        (Some("a"), None, Ok("a")),
        (Some("offline_access"), Some("r"), Ok("a b")),
        (Some("a c"), None, Err(RenewError::Scope)),
        (None, Some("other"), Err(RenewError::Target)),
    ];
    for (scope, resource, want) in table {
        let asked = Renewal { token: &token.clone(), client: "c", scope, resource };
        match (pods.renew_as(0, asked).await, want) {
            (Ok((answer, next)), Ok(scope)) => {
                assert!(answer.ends_with(&format!(":{scope}")), "{answer}");
                token = next;
            }
            (got, want) => assert_eq!(got.err(), want.err()),
        }
    }
}

#[tokio::test]
async fn a_family_that_was_ended_before_it_began_does_not_begin() {
    let pods = Pods::new(GRACE);
    let family = random_text();
    pods.families[1].end(&family).await.unwrap();
    assert_eq!(pods.families[0].begin(&family, &grant(), "i").await, Ok(None));
    let person = Principal::minted("t", "i", "s");
    assert_eq!(pods.families[0].holdings.list(&person, Kind::Family).await, Ok(vec![]));
}

#[tokio::test]
async fn a_family_ends_so_long_after_its_login_however_often_it_is_used() {
    let pods = Pods::of_lives(GRACE, Duration::from_secs(3600));
    let family = random_text();
    let first = pods.families[0].begin(&family, &grant(), "i").await.unwrap().unwrap();
    let (_, second) = pods.renew(0, &first).await.unwrap();
    // As if it had begun an hour ago; and one from before this was kept counts from now on.
    for (begun, good) in [(0, true), (now() - 3600, false)] {
        let record = pods.families[0].store.get(key(&family)).await.unwrap().unwrap();
        let mut kept = pods.families[0].open(&family, record.field("d").unwrap()).unwrap();
        assert_ne!(kept.begun, 0, "it is kept");
        kept.begun = begun;
        let sealed = pods.families[0].seal(&family, &kept);
        let write = vec![(key(&family), Write::set("d", sealed))];
        pods.families[0].store.commit(vec![], write, Sure::Master).await.unwrap();
        let number = record.field("n").unwrap().clone();
        let newest = if number == "2" { second.clone() } else { super::write(&family, 3, &kept.secret) };
        assert_eq!(pods.renew(1, &newest).await.is_ok(), good, "{begun}");
    }
    assert!(pods.revoked.has(Revocable::Family(&family)), "its access tokens end with it");
}

#[tokio::test]
async fn who_was_shut_out_renews_nothing_and_begins_nothing() {
    let pods = Pods::new(GRACE);
    let family = random_text();
    let first = pods.families[0].begin(&family, &grant(), "i").await.unwrap().unwrap();
    let colleague = Principal::minted("t", "i", "other");
    pods.revoked.revoke(Revocable::Principal(&colleague), now() + 60).await.unwrap();
    let (_, second) = pods.renew(1, &first).await.unwrap();
    let person = Principal::minted("t", "i", "s");
    pods.revoked.revoke(Revocable::Principal(&person), now() + 60).await.unwrap();
    assert_eq!(pods.renew(1, &second).await, Err(RenewError::Invalid));
    assert!(pods.revoked.has(Revocable::Family(&family)), "and what came of it has ended");
    assert_eq!(pods.families[0].begin(&random_text(), &grant(), "i").await.unwrap(), None);
}
