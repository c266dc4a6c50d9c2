//! Members that gave a caller no list a moment ago: they are not asked for it again just to route, until they are heard.

use super::faults;
use crate::mcp::{Caller, Fault, Kind};
use crate::wire::Method;
use moka::sync::Cache;
use std::array;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How long a member that is not heard is not asked for a list again.
const SILENCE: Duration = Duration::from_secs(5);

/// Who did not give which list to whom.
pub(super) struct Silence {
    faults: Cache<(usize, Kind, Arc<str>), (Fault, Moment)>,
    members: Vec<Heard>,
}

/// What was heard of a member so far.
struct Heard {
    /// A fault stands that says that it cannot be reached.
    unreached: AtomicBool,
    /// How often it was heard after that.
    returns: AtomicU64,
    /// How often each of its lists was said to have changed.
    changes: [AtomicU64; 4],
}

/// A moment in what is heard of a member and a list of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    returns: u64,
    changes: u64,
}

impl Silence {
    /// `callers`: of how many it is remembered at most.
    pub(super) fn new(members: usize, callers: u64) -> Silence {
        let heard = || Heard {
            unreached: AtomicBool::new(false),
            returns: AtomicU64::new(0),
            changes: array::from_fn(|_| AtomicU64::new(0)),
        };
        Silence {
            faults: Cache::builder().max_capacity(callers).time_to_live(SILENCE).build(),
            members: (0..members).map(|_| heard()).collect(),
        }
    }

    /// Why the member gave this caller no such list, if that was a moment ago and may still be so.
    pub(super) fn of(&self, member: usize, kind: Kind, caller: &Caller) -> Option<Fault> {
        let (fault, then) = self.faults.get(&(member, kind, caller.session.key().clone()))?;
        let now = self.moment(member, kind);
        let holds = then.changes == now.changes
            // A member that is there may still fail to give this list: only its absence is over.
            && (then.returns == now.returns || !faults::is_unreachable(&fault));
        holds.then_some(fault)
    }

    /// To be taken before a list is asked for: what is heard afterwards is newer than the answer.
    pub(super) fn moment(&self, member: usize, kind: Kind) -> Moment {
        let heard = &self.members[member];
        Moment {
            returns: heard.returns.load(Ordering::Acquire),
            changes: heard.changes[kind as usize].load(Ordering::Acquire),
        }
    }

    /// It gave no list when it was asked at `then`.
    pub(super) fn begins(&self, member: usize, kind: Kind, caller: &Caller, fault: Fault, then: Moment) {
        if faults::is_unreachable(&fault) {
            self.members[member].unreached.store(true, Ordering::Release);
        }
        self.faults.insert((member, kind, caller.session.key().clone()), (fault, then));
    }

    /// It gave the list.
    pub(super) fn ends(&self, member: usize, kind: Kind, caller: &Caller) {
        self.faults.invalidate(&(member, kind, caller.session.key().clone()));
    }

    /// The member is there, whatever it says. Costs nothing where nobody missed it.
    pub(super) fn heard(&self, member: usize) {
        let heard = &self.members[member];
        if heard.unreached.load(Ordering::Relaxed) && heard.unreached.swap(false, Ordering::AcqRel) {
            heard.returns.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The member notifies of something: what it says of a changed list is newer than what was known of that list.
    pub(super) fn told(&self, member: usize, method: &Method) {
        self.heard(member);
        let kinds: &[Kind] = match method {
            Method::ToolsChanged => &[Kind::Tool],
            Method::PromptsChanged => &[Kind::Prompt],
            Method::ResourcesChanged => &[Kind::Resource, Kind::Template],
            _ => &[],
        };
        for kind in kinds {
            self.members[member].changes[*kind as usize].fetch_add(1, Ordering::AcqRel);
        }
    }
}
