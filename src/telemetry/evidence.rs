//! What clients were seen to do, attachment by attachment: a legacy session, or all modern calls of one principal and client,
//! which have no connection and are given none. Bounded: the newest [`MOST`] of a pod.

use super::metrics::metrics;
use super::watch::Who;
use foldhash::HashMap as Map;
use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// Attachments that are remembered.
const MOST: usize = 1_000;
/// How many of the oldest make room at once: looking for them costs a pass over all.
const ROOM: usize = 100;

/// What was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A legacy client's `initialize` was answered.
    InitializeObserved,
    /// A protocol version was accepted.
    ProtocolAccepted,
    ToolsListed,
    ToolCalled,
    /// The session ended, or its pipe did.
    ConnectionClosed,
}

const KINDS: [&str; 5] =
    ["initialize_observed", "protocol_accepted", "tools_listed", "tool_called", "connection_closed"];

/// One attachment.
struct Attachment {
    of: About,
    seen: [Seen; 5],
    last: AtomicU64,
}

struct About {
    connection: Option<String>,
    tenant: Arc<str>,
    profile: String,
    client: Option<String>,
    version: &'static str,
    era: &'static str,
}

/// How often, and when first and last, in milliseconds since 1970.
#[derive(Default)]
struct Seen {
    count: AtomicU64,
    first: AtomicU64,
    last: AtomicU64,
}

/// An attachment as it is told.
#[derive(Serialize, Debug)]
pub struct Told {
    /// The beginning of the session's id; `null` for modern calls and callers without a session.
    pub connection: Option<String>,
    pub tenant: Arc<str>,
    pub profile: String,
    pub client: Option<String>,
    pub version: &'static str,
    pub era: &'static str,
    /// By kind: `count`, `first` and `last` (milliseconds since 1970).
    pub evidence: HashMap<&'static str, Evidence>,
}

#[derive(Serialize, Debug, PartialEq)]
pub struct Evidence {
    pub count: u64,
    pub first: u64,
    pub last: u64,
}

struct Book {
    all: RwLock<Map<Arc<str>, Arc<Attachment>>>,
    counted: [IntCounter; 5],
    remembered: IntGauge,
}

fn book() -> &'static Book {
    static BOOK: OnceLock<Book> = OnceLock::new();
    BOOK.get_or_init(|| {
        let counted = IntCounterVec::new(
            Opts::new("plasm_evidence_total", "Attachments of which this was seen for the first time."),
            &["kind"],
        );
        let counted = metrics().registered(counted);
        let remembered = IntGauge::new("plasm_attachments", "Attachments that are remembered.");
        Book {
            all: RwLock::default(),
            counted: KINDS.map(|kind| counted.with_label_values(&[kind])),
            remembered: metrics().registered(remembered),
        }
    })
}

/// Takes note of what was seen of a caller.
pub(super) fn note(who: &dyn Who, kinds: [Option<Kind>; 2]) {
    if kinds == [None, None] {
        return;
    }
    let saw = |attachment: &Attachment| {
        let now = now();
        kinds.into_iter().flatten().for_each(|kind| attachment.saw(kind, now));
    };
    let book = book();
    let known = book.all.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(attachment) = known.get(who.key()) {
        return saw(attachment);
    }
    drop(known);
    saw(&book.make(who));
}

/// The session of this key is over.
pub fn closed(key: &str) {
    let known = book().all.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
    if let Some(attachment) = known {
        attachment.saw(Kind::ConnectionClosed, now());
    }
}

/// All that is remembered, the last seen first.
pub fn told() -> Vec<Told> {
    let all: Vec<_> = book().all.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
    let mut all: Vec<_> = all.into_iter().map(|one| (one.last.load(Relaxed), one)).collect();
    all.sort_by_key(|(last, _)| std::cmp::Reverse(*last));
    all.into_iter().map(|(_, one)| one.told()).collect()
}

impl Book {
    fn make(&self, who: &dyn Who) -> Arc<Attachment> {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            let mut lasts: Vec<_> = all.values().map(|one| one.last.load(Relaxed)).collect();
            let (_, oldest, _) = lasts.select_nth_unstable(ROOM);
            let oldest = *oldest;
            // Of those that were seen in one millisecond no more go than have to: it may be all.
            let mut go = ROOM + 1;
            all.retain(|_, one| {
                let goes = go > 0 && one.last.load(Relaxed) <= oldest;
                go -= usize::from(goes);
                !goes
            });
        }
        let made = all.entry(who.key().clone()).or_insert_with(|| Arc::new(Attachment::of(who))).clone();
        self.remembered.set(all.len() as i64);
        made
    }
}

impl Attachment {
    fn of(who: &dyn Who) -> Attachment {
        let modern = who.is_modern();
        let of = About {
            connection: who.session().filter(|_| !modern),
            tenant: who.tenant().clone(),
            profile: who.profile().to_owned(),
            client: who.client(),
            version: who.version(),
            era: if modern { "modern" } else { "legacy" },
        };
        Attachment { of, seen: Default::default(), last: AtomicU64::new(now()) }
    }

    fn saw(&self, kind: Kind, now: u64) {
        let seen = &self.seen[kind as usize];
        if seen.count.fetch_add(1, Relaxed) == 0 {
            seen.first.store(now, Relaxed);
            book().counted[kind as usize].inc();
        }
        seen.last.store(now, Relaxed);
        self.last.store(now, Relaxed);
    }

    fn told(&self) -> Told {
        let seen = KINDS.into_iter().zip(&self.seen).filter_map(|(kind, seen)| {
            let count = seen.count.load(Relaxed);
            let evidence = Evidence { count, first: seen.first.load(Relaxed), last: seen.last.load(Relaxed) };
            (count > 0).then_some((kind, evidence))
        });
        let About { connection, tenant, profile, client, version, era } = &self.of;
        Told {
            connection: connection.clone(),
            tenant: tenant.clone(),
            profile: profile.clone(),
            client: client.clone(),
            version,
            era,
            evidence: seen.collect(),
        }
    }
}

fn now() -> u64 {
    crate::clock::unix_ms()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Somebody(Arc<str>, bool);

    impl Who for Somebody {
        fn tenant(&self) -> &Arc<str> {
            &self.0
        }
        fn issuer(&self) -> &str {
            ""
        }
        fn subject(&self) -> &str {
            ""
        }
        fn oauth_client(&self) -> Option<&str> {
            None
        }
        fn client(&self) -> Option<String> {
            None
        }
        fn profile(&self) -> &str {
            ""
        }
        fn version(&self) -> &'static str {
            "2026-07-28"
        }
        fn is_modern(&self) -> bool {
            self.1
        }
        fn session(&self) -> Option<String> {
            Some("abcdef…".to_owned())
        }
        fn key(&self) -> &Arc<str> {
            &self.0
        }
    }

    #[test]
    fn evidence_is_bounded_and_a_modern_caller_has_no_connection() {
        for n in 0..MOST * 2 {
            note(&Somebody(format!("evidence-{n}").into(), false), [Some(Kind::InitializeObserved), None]);
        }
        note(&Somebody("evidence-modern".into(), true), [Some(Kind::ProtocolAccepted), None]);
        let told = told();
        assert!(told.len() <= MOST, "{}", told.len());
        let modern = told.iter().find(|one| &*one.tenant == "evidence-modern").unwrap();
        assert_eq!((&modern.connection, modern.era), (&None, "modern"));
        assert_eq!(modern.evidence["protocol_accepted"].count, 1);
        assert!(told.len() >= MOST - ROOM, "{}: no more went than had to", told.len());
        // Whether it is still there or not: many were seen in the same millisecond.
        let key = format!("evidence-{}", MOST * 2 - 1);
        note(&Somebody(key.as_str().into(), false), [Some(Kind::InitializeObserved), None]);
        closed(&key);
        closed("evidence-nobody");
        let legacy = super::told().into_iter().find(|one| *one.tenant == *key).unwrap();
        assert_eq!(legacy.connection.as_deref(), Some("abcdef…"));
        assert_eq!(legacy.evidence.len(), 2);
    }
}
