//! Renewals while the store is in trouble.

use super::*;
use crate::egress::{Egress, Reach};
use crate::sealing::Keyring;
use crate::store::{Events, Fut, Grant, Health, Heard, Memory, PodId, Rate, Store, StoreError, Topic};
use crate::vault::held::Source;
use crate::vault::token::{Client, Method};
use crate::vault::{Settings, Vault};
use futures_util::FutureExt as _;
use futures_util::stream::BoxStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::watch;

/// A store that takes nothing while it is told so.
struct Hiccup {
    store: Memory,
    takes_nothing: Arc<AtomicBool>,
    /// How often it answered what was committed.
    answered: Arc<AtomicUsize>,
}

impl Store for Hiccup {
    fn get(&self, key: Key) -> Fut<Option<Record>> {
        self.store.get(key)
    }
    fn near(&self, key: Key) -> Fut<Option<Record>> {
        self.store.near(key)
    }
    fn commit(&self, checks: Vec<(Key, Check)>, writes: Vec<(Key, Write)>, sure: Sure) -> Fut<Commit> {
        if self.takes_nothing.load(Ordering::SeqCst) {
            return std::future::ready(Err(StoreError::Away)).boxed();
        }
        let (commit, answered) = (self.store.commit(checks, writes, sure), self.answered.clone());
        async move {
            let commit = commit.await;
            answered.fetch_add(1, Ordering::SeqCst);
            commit
        }
        .boxed()
    }
    fn take(&self, key: Key, sure: Sure) -> Fut<Option<Record>> {
        self.store.take(key, sure)
    }
    fn admit(&self, key: Key, rate: Rate) -> Fut<Grant> {
        self.store.admit(key, rate)
    }
    fn events(&self, key: Key, after: u64, most: u32) -> Fut<Option<Events>> {
        self.store.events(key, after, most)
    }
    fn mail(&self, to: PodId, letter: Bytes) -> Fut<bool> {
        self.store.mail(to, letter)
    }
    fn say(&self, topic: Topic, what: Bytes) -> Fut<()> {
        self.store.say(topic, what)
    }
    fn hear(&self, me: PodId) -> BoxStream<'static, Heard> {
        self.store.hear(me)
    }
    fn health(&self) -> watch::Receiver<Health> {
        self.store.health()
    }
}

fn held(refresh: &str) -> Held {
    let given =
        format!(r#"{{"access_token":"a","token_type":"bearer","expires_in":1,"refresh_token":"{refresh}"}}"#);
    let source = Source {
        issuer: "https://as.example".into(),
        endpoint: "https://as.example/token".into(),
        revocation: None,
        client: Client { id: "c".into(), secret: None, method: Method::None, signer: None },
        resource: Some("https://up.example/mcp".into()),
        scopes: Vec::new(),
    };
    Held::of(serde_json::from_str(&given).unwrap(), source)
}

/// Gives a token for `r1`, once; the store takes nothing from then on.
struct Rotating {
    takes_nothing: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    asked: AtomicUsize,
}

impl Rotating {
    /// Has the store take things again; until it has.
    async fn mend(&self) {
        let before = self.answered.load(Ordering::SeqCst);
        self.takes_nothing.store(false, Ordering::SeqCst);
        let answered = async {
            while self.answered.load(Ordering::SeqCst) == before {
                sleep(LOOK).await;
            }
        };
        tokio::time::timeout(PATIENCE, answered).await.expect("it is offered what it did not take");
    }
}

impl Renewal for Rotating {
    fn renew(&self, was: Option<Arc<Held>>) -> BoxFuture<'static, Result<Held, Fruitless>> {
        let first = self.asked.fetch_add(1, Ordering::SeqCst) == 0;
        self.takes_nothing.store(true, Ordering::SeqCst);
        async move {
            match was.as_ref().and_then(|was| was.refresh.as_ref()) {
                Some(refresh) if first && refresh.expose() == "r1" => Ok(held("r2")),
                _ => Err(Fruitless { lack: Lack::Bad, void: true }),
            }
        }
        .boxed()
    }
}

/// A vault that holds `r1` in a slot.
async fn held_first() -> (Vault, Slot, Arc<Rotating>) {
    let takes_nothing = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicUsize::new(0));
    let store = Hiccup {
        store: Memory::new(1 << 20),
        takes_nothing: takes_nothing.clone(),
        answered: answered.clone(),
    };
    let vault = Vault::new(Settings {
        store: Arc::new(store),
        keyring: Arc::new(Keyring::random()),
        egress: Egress::new(Reach { inside: Vec::new() }, rustls::RootCertStore::empty()),
        base: None,
    });
    let slot = Slot { key: Key::new("vault:a", "up"), owner: "up a".into() };
    vault.shared.hold(&slot, &held("r1")).await.unwrap();
    let renewal = Arc::new(Rotating { takes_nothing, answered, asked: AtomicUsize::new(0) });
    (vault, slot, renewal)
}

#[tokio::test]
async fn what_was_renewed_while_the_store_took_nothing_is_used_and_held_once_it_does() {
    let (vault, slot, renewal) = held_first().await;
    let refresh = |held: &Held| held.refresh.as_ref().map(|refresh| refresh.expose().to_owned());
    let got = vault.shared.renewed(slot.clone(), None, renewal.clone()).await.unwrap();
    assert_eq!(refresh(&got).as_deref(), Some("r2"));
    let rests = async || refresh(&vault.shared.held(&slot).await.unwrap().unwrap());
    assert_eq!(rests().await.as_deref(), Some("r1"));
    renewal.mend().await;
    assert_eq!(rests().await.as_deref(), Some("r2"));
    assert_eq!(renewal.asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn what_was_taken_away_by_its_owner_meanwhile_is_not_held_again() {
    let (vault, slot, renewal) = held_first().await;
    vault.shared.renewed(slot.clone(), None, renewal.clone()).await.unwrap();
    assert!(vault.shared.forget(&slot).await.unwrap().is_some());
    renewal.mend().await;
    assert!(vault.shared.held(&slot).await.unwrap().is_none());
}
