//! The modern callers seen of late. Each request of a client describes it anew, in the same bytes; what was made of them
//! once (client, pooled identity) serves again.

use crate::mcp::{Access, Caller};
use crate::wire::{Raw, Version};
use arc_swap::ArcSwapOption;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// A power of two: the slot is taken from the hash's low bits.
const SLOTS: usize = 1024;
/// A description longer than this, in bytes, is made anew each time: what is kept is bounded by [`SLOTS`] of it.
const LONGEST: usize = 4096;

/// What a caller is told apart by.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Told<'a> {
    pub profile: &'a str,
    pub access: &'a Arc<Access>,
    pub version: Version,
    pub info: Option<&'a [u8]>,
    pub capabilities: Option<&'a [u8]>,
    pub agent: Option<&'a str>,
}

impl<'a> Told<'a> {
    fn of(caller: &'a Caller) -> Told<'a> {
        let raw = |raw: &'a Option<Raw>| raw.as_ref().map(|r| &r.text()[..]);
        Told {
            profile: &caller.profile,
            access: &caller.access,
            version: caller.version,
            info: raw(&caller.client.info),
            capabilities: raw(&caller.client.capabilities),
            agent: caller.client.user_agent.as_deref(),
        }
    }

    fn len(&self) -> usize {
        self.info.map_or(0, <[u8]>::len)
            + self.capabilities.map_or(0, <[u8]>::len)
            + self.agent.map_or(0, str::len)
    }
}

/// A table in which each caller has one place; the last one there stays.
pub struct Callers {
    slots: Box<[ArcSwapOption<Caller>]>,
    /// The one seen last, for calls in a row are mostly of one caller.
    last: ArcSwapOption<Caller>,
    state: RandomState,
}

impl Default for Callers {
    fn default() -> Callers {
        let slots = (0..SLOTS).map(|_| ArcSwapOption::empty()).collect();
        Callers { slots, last: ArcSwapOption::empty(), state: RandomState::new() }
    }
}

impl Callers {
    /// The caller of that description, made by `make` where it was not seen of late. What is made must not share the
    /// request's buffer, for it is kept.
    pub fn get(&self, told: Told<'_>, make: impl FnOnce() -> Caller) -> Arc<Caller> {
        if told.len() > LONGEST {
            return Arc::new(make());
        }
        let told_by = |slot: &ArcSwapOption<Caller>| {
            slot.load().as_ref().filter(|caller| Told::of(caller) == told).map(Arc::clone)
        };
        if let Some(caller) = told_by(&self.last) {
            return caller;
        }
        let slot = &self.slots[self.state.hash_one(told) as usize & (SLOTS - 1)];
        let caller = told_by(slot).unwrap_or_else(|| {
            let caller = Arc::new(make());
            slot.store(Some(caller.clone()));
            caller
        });
        self.last.store(Some(caller.clone()));
        caller
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::{Client, Principal};
    use std::cell::Cell;

    #[test]
    fn a_caller_is_made_once_for_one_description_and_anew_for_another() {
        let callers = Callers::default();
        let made = Cell::new(0);
        let access = Arc::new(Access::open(Arc::new(Principal::minted("", "", "a"))));
        let get = |agent: &'static str, info: &'static [u8]| {
            let told = Told {
                profile: "",
                access: &access,
                version: Version::MODERN,
                info: Some(info),
                capabilities: None,
                agent: Some(agent),
            };
            callers.get(told, || {
                made.set(made.get() + 1);
                let client = Client {
                    info: Some(Raw::trusted(info)),
                    user_agent: Some(agent.into()),
                    ..Client::default()
                };
                let session = Arc::new(crate::mcp::Kept::sessionless("k"));
                let access = access.clone();
                Caller {
                    access,
                    profile: "".into(),
                    client: Arc::new(client),
                    version: Version::MODERN,
                    session,
                }
            })
        };
        let first = get("x", b"{}");
        assert!(Arc::ptr_eq(&first, &get("x", b"{}")));
        get("y", b"{}");
        get("x", b"{ }");
        assert_eq!(made.get(), 3);
    }
}
