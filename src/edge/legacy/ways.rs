//! How far the calls of a logged stream have come, noted beside the stream so that another pod can go on with them: what each
//! is, where it stands upstream, and how much of what follows was told already. Runs nothing.

use crate::mcp::{Call, Caller, Cancel, Track, Trail};
use crate::session::Outlet;
use crate::wire::params::Params;
use crate::wire::{Id, Method};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::select_all;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// The note that says which calls there are. Beside it stands for each how far it has come (`a<n>`).
const CALLS: &str = "c";

/// The calls of one exchange.
#[derive(Default)]
pub(super) struct Ways(Mutex<Vec<Way>>);

struct Way {
    /// The client's id and progress token, as they stand in its request.
    id: Id,
    progress: Option<Bytes>,
    method: Method,
    deadline: Instant,
    /// None where nobody writes it.
    trail: Option<Arc<Trail>>,
    /// The track as it was noted, and the requests that were sent when it was.
    track: Option<Track>,
    sent: u32,
    mark: Mark,
    /// Notes that are still to come and were told by another pod.
    told: u32,
}

/// What is noted of a call when it is first known, and again when another request is sent for it.
#[derive(Serialize, Deserialize)]
struct Noted {
    /// The client's id, as it stands in its request.
    #[serde(rename = "i")]
    id: Box<RawValue>,
    #[serde(rename = "m")]
    method: String,
    /// The client's progress token.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    progress: Option<Box<RawValue>>,
    /// When it is to end, in milliseconds since 1970.
    #[serde(rename = "d")]
    deadline: u64,
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    track: Option<Track>,
}

/// Where a call's stream upstream is to be resumed, and how many of the notes that follow there are in our log already.
/// While a question waits for its answer the place stays before it, so that another pod asks again.
#[derive(Serialize, Deserialize, Clone, Default, PartialEq, Debug)]
struct Mark {
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    at: Option<Arc<str>>,
    #[serde(rename = "k", default)]
    told: u32,
    /// The call has ended: its answer is in the log.
    #[serde(rename = "e", default, skip_serializing_if = "std::ops::Not::not")]
    over: bool,
}

/// A call that another pod left.
pub(super) struct Left {
    pub(super) id: Id,
    noted: Noted,
    mark: Mark,
}

impl Ways {
    fn all(&self) -> MutexGuard<'_, Vec<Way>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call begins here, under the client's id.
    pub(super) fn begin(&self, call: &Call, id: &Id) {
        self.all().push(Way::of(call, id.clone()));
    }

    /// A call goes on here that another pod left. Its track, with the place where it is to be resumed.
    pub(super) fn again(&self, call: &Call, left: Left) -> Option<Track> {
        let Left { id, noted, mark } = left;
        let told = mark.told;
        self.all().push(Way { track: noted.track.clone(), mark: mark.clone(), told, ..Way::of(call, id) });
        noted.track.map(|track| Track { at: mark.at, ..track })
    }

    /// The calls as they were begun.
    pub(super) fn noted(&self) -> Bytes {
        calls(&self.all())
    }

    /// Whether the next note of a call is in the log already.
    pub(super) fn is_told(&self, n: usize) -> bool {
        let mut all = self.all();
        let Some(way) = all.get_mut(n).filter(|way| way.told > 0) else { return false };
        way.told -= 1;
        true
    }

    /// A note of a call goes into the log; it came in the event `at` of the upstream.
    pub(super) fn took(&self, n: usize, at: Option<&Bytes>, asking: bool, outlet: &Outlet) {
        let mut all = self.all();
        let Some(way) = all.get_mut(n) else { return };
        let at: Option<Arc<str>> = at.and_then(|at| std::str::from_utf8(at).ok()).map(Into::into);
        if let Some(trail) = &way.trail {
            trail.took(at.clone());
        }
        if asking || way.mark.at == at {
            way.mark.told += 1;
        } else {
            way.mark = Mark { at, ..Mark::default() };
        }
        outlet.note(format!("a{n}"), json(&way.mark));
    }

    /// Notes what has changed of all calls.
    pub(super) fn note(&self, asking: bool, outlet: &Outlet) {
        let mut all = self.all();
        if all.is_empty() {
            return;
        }
        let mut changed = false;
        for (n, way) in all.iter_mut().enumerate() {
            let Some(trail) = way.trail.as_ref().filter(|_| !way.mark.over) else { continue };
            let (sent, at) = trail.at();
            if sent != way.sent {
                // Another request has another stream, of which nothing was told; what was taken over has the same.
                let same = way.sent == 0 && way.mark.at == at;
                (way.sent, way.track) = (sent, trail.track().1);
                changed = true;
                if !same {
                    way.mark = Mark { at, ..Mark::default() };
                }
            } else if asking || way.mark.at == at {
                continue;
            } else {
                way.mark = Mark { at, ..Mark::default() };
            }
            outlet.note(format!("a{n}"), json(&way.mark));
        }
        // Also where nothing is known of a call yet: that it was begun.
        if changed || all.iter().all(|way| way.sent == 0) {
            outlet.note(CALLS, calls(&all));
        }
    }

    /// Notes all of all calls: under the numbers that they have here.
    pub(super) fn note_all(&self, outlet: &Outlet) {
        let all = self.all();
        for (n, way) in all.iter().enumerate() {
            outlet.note(format!("a{n}"), json(&way.mark));
        }
        outlet.note(CALLS, calls(&all));
    }

    /// A call has ended, and its answer goes into the log.
    pub(super) fn ended(&self, n: usize, outlet: &Outlet) {
        let mut all = self.all();
        if let Some(way) = all.get_mut(n) {
            way.mark.over = true;
            outlet.note(format!("a{n}"), json(&way.mark));
        }
    }

    /// Resolves when a call has come further with nothing to tell its client.
    pub(super) async fn moved(&self) {
        let trails: Vec<_> = self.all().iter().filter_map(|way| way.trail.clone()).collect();
        if trails.is_empty() {
            return std::future::pending().await;
        }
        select_all(trails.iter().map(|trail| trail.moved().boxed())).await;
    }

    /// Another pod goes on with the calls.
    pub(super) fn let_go(&self) {
        for trail in self.all().iter().filter_map(|way| way.trail.as_ref()) {
            trail.let_go();
        }
    }
}

impl Way {
    fn of(call: &Call, id: Id) -> Way {
        Way {
            id,
            progress: call.progress.clone(),
            method: call.method.clone(),
            deadline: call.deadline,
            trail: call.trail.clone(),
            track: None,
            sent: 0,
            mark: Mark::default(),
            told: 0,
        }
    }
}

fn calls(all: &[Way]) -> Bytes {
    let noted = all.iter().map(|way| Noted {
        id: raw(way.id.token()),
        method: way.method.as_str().to_owned(),
        progress: way.progress.as_ref().map(|token| raw(token)),
        deadline: now() + way.deadline.saturating_duration_since(Instant::now()).as_millis() as u64,
        track: way.track.clone(),
    });
    json(&noted.collect::<Vec<_>>())
}

/// The calls that had not ended when their pod was lost, as it noted them.
pub(super) fn left(notes: &BTreeMap<Arc<str>, Bytes>) -> Vec<Left> {
    let calls = notes.get(CALLS).map(|calls| read(calls)).unwrap_or_default();
    let mark = |n: usize| -> Mark {
        let mark = notes.get(format!("a{n}").as_str());
        mark.and_then(|mark| serde_json::from_slice(mark).ok()).unwrap_or_default()
    };
    let marked = calls.into_iter().enumerate().map(|(n, left)| Left { mark: mark(n), ..left });
    marked.filter(|left| !left.mark.over).collect()
}

/// The calls in a note, as they were begun.
pub(super) fn read(noted: &[u8]) -> Vec<Left> {
    let noted: Vec<Noted> = serde_json::from_slice(noted).unwrap_or_default();
    let of = |noted: Noted| {
        let token = Bytes::copy_from_slice(noted.id.get().as_bytes());
        Some(Left { id: Id::read(&token, &(0..token.len() as u32))?, mark: Mark::default(), noted })
    };
    noted.into_iter().filter_map(of).collect()
}

impl Left {
    /// The call as the new pod makes it: without params, for it is not made again.
    pub(super) fn call(&self, caller: &Arc<Caller>) -> Call {
        let left = Duration::from_millis(self.noted.deadline.saturating_sub(now()));
        Call {
            caller: caller.clone(),
            method: Method::parse(&self.noted.method),
            params: Params::none(),
            progress: self
                .noted
                .progress
                .as_ref()
                .map(|token| Bytes::copy_from_slice(token.get().as_bytes())),
            resume: None,
            trail: Some(Arc::default()),
            cancel: Cancel::never(),
            deadline: Instant::now() + left,
            watch: None,
        }
    }
}

fn raw(token: &[u8]) -> Box<RawValue> {
    serde_json::from_slice(token).expect("ids and tokens were read as JSON")
}

fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("strings and numbers have a JSON form").into()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::UpstreamId;

    #[test]
    fn what_was_left_is_read_as_it_was_noted_and_what_had_ended_is_not_left() {
        let track = Track {
            upstream: UpstreamId::new("up").unwrap(),
            request: Id::of_str("r-1"),
            session: Some("S".into()),
            version: crate::wire::Version::NEWEST_LEGACY,
            uri: None,
            at: None,
        };
        let way = |id: &'static str, over| Way {
            id: Id::read(&Bytes::from_static(id.as_bytes()), &(0..id.len() as u32)).unwrap(),
            progress: Some(Bytes::from_static(b"7")),
            method: Method::ToolsCall,
            deadline: Instant::now() + Duration::from_secs(60),
            trail: None,
            track: Some(track.clone()),
            sent: 1,
            mark: Mark { at: Some("4-2".into()), told: 3, over },
            told: 0,
        };
        let all = [way("\"7\"", true), way("7", false)];
        let mut notes: BTreeMap<Arc<str>, Bytes> = BTreeMap::new();
        notes.insert(CALLS.into(), calls(&all));
        for (n, way) in all.iter().enumerate() {
            notes.insert(format!("a{n}").into(), json(&way.mark));
        }
        let left = left(&notes);
        let [one] = &left[..] else { panic!("{} are left", left.len()) };
        assert_eq!(one.id.token(), &b"7"[..]);
        assert_eq!((one.noted.track.as_ref(), &one.mark), (Some(&track), &all[1].mark));
        assert!(super::left(&BTreeMap::new()).is_empty());
    }
}
