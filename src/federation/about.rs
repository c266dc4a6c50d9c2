//! What a profile of several says of itself: the union of what its members offer to this caller.

use super::composite::Inner;
use super::faults;
use super::splice;
use crate::mcp::{About, Caller, Fault};
use crate::wire::Raw;
use futures_util::future::join_all;
use std::fmt::Write as _;
use std::sync::Arc;

/// The server capabilities that have lists, and those that are only there or not.
const LISTED: [&str; 3] = ["prompts", "resources", "tools"];
const PLAIN: [&str; 2] = ["completions", "logging"];

impl Inner {
    pub(super) async fn about(self: Arc<Self>, caller: Arc<Caller>) -> Result<Arc<About>, Fault> {
        if let [only] = &self.profile.members[..] {
            let about = only.backend.about(caller).await?;
            self.said[0].store(Some(about.clone()));
            let Some(ours) = &self.profile.instructions else { return Ok(about) };
            return Ok(Arc::new(About { instructions: Some(ours.clone()), ..(*about).clone() }));
        }
        let members = 0..self.profile.members.len();
        let abouts = join_all(members.map(|member| self.about_of(member, &caller))).await;
        let missing: Vec<_> = (abouts.iter().zip(&self.profile.members))
            .filter(|(about, _)| about.is_none())
            .map(|(_, member)| member.backend.id().clone())
            .collect();
        let present = || abouts.iter().flatten();
        let nested = || present().any(|about| !about.missing.is_empty());
        let partial = !missing.is_empty() || nested();
        Ok(Arc::new(About {
            server_info: None,
            capabilities: self.capabilities(&abouts),
            instructions: self.instructions(&abouts),
            ttl_ms: if partial { 0 } else { present().map(|about| about.ttl_ms).min().unwrap_or(0) },
            private: partial || present().any(|about| about.private),
            missing: missing.into_iter().chain(present().flat_map(|about| about.missing.clone())).collect(),
        }))
    }

    /// What a member said last, else what it says now; `None` where it does not say so in time.
    pub(super) async fn said_of(&self, member: usize, caller: &Arc<Caller>) -> Option<Arc<About>> {
        match self.said[member].load_full() {
            Some(said) => Some(said),
            None => self.about_of(member, caller).await,
        }
    }

    /// What a member says of itself to this caller; `None` where it does not say so in time.
    async fn about_of(&self, member: usize, caller: &Arc<Caller>) -> Option<Arc<About>> {
        let of = &self.profile.members[member];
        let upstream = of.backend.id();
        match tokio::time::timeout(of.limit, of.backend.about(caller.clone())).await {
            Ok(Ok(about)) => {
                let before = self.said[member].swap(Some(about.clone()));
                // What it said before may have been given without asking it.
                if before.is_none_or(|before| !Arc::ptr_eq(&before, &about)) {
                    self.silence.heard(member);
                }
                return Some(about);
            }
            Ok(Err(fault)) => {
                let why = faults::word(&fault);
                tracing::debug!(%upstream, why, "an upstream does not say what it offers");
            }
            Err(_late) => tracing::debug!(%upstream, "an upstream does not say in time what it offers"),
        }
        None
    }

    /// Whether a member has a list, or may have one: by what it last said, for lists come and go with the member.
    pub(super) fn may_have(&self, member: usize, capability: &str, field: Option<&str>) -> bool {
        let Some(said) = self.said[member].load_full() else { return field.is_none() };
        has(&said.capabilities, capability, field)
    }

    /// Lists change when a member comes or goes, so `listChanged` is always true. Extensions are one server's own, but for the
    /// gateway's.
    fn capabilities(&self, abouts: &[Option<Arc<About>>]) -> Raw {
        let any = |capability: &str, field: Option<&str>| {
            abouts.iter().enumerate().any(|(member, about)| match about {
                Some(about) => has(&about.capabilities, capability, field),
                None => self.may_have(member, capability, field),
            })
        };
        let says = |capability: &str| {
            abouts.iter().flatten().any(|about| has(&about.capabilities, capability, None))
        };
        let mut out = String::from("{");
        for capability in PLAIN.into_iter().filter(|capability| says(capability)) {
            let _infallible = write!(out, "\"{capability}\":{{}},");
        }
        for capability in LISTED.into_iter().filter(|capability| any(capability, None)) {
            let subscribe = if any(capability, Some("subscribe")) { ",\"subscribe\":true" } else { "" };
            let _infallible = write!(out, "\"{capability}\":{{\"listChanged\":true{subscribe}}},");
        }
        // Those of the gateway's own member are the gateway's.
        let own = abouts.iter().enumerate().find(|(member, _)| self.rules.is_own(*member));
        if let Some(about) = own.and_then(|(_, about)| about.as_ref()) {
            let text = about.capabilities.to_bytes();
            if let Some(extensions) = splice::member(&text, 0, "extensions") {
                let extensions =
                    String::from_utf8_lossy(&text[extensions.start as usize..extensions.end as usize]);
                let _infallible = write!(out, "\"extensions\":{extensions},");
            }
        }
        out.truncate(out.trim_end_matches(',').len());
        out.push('}');
        Raw::trusted(out)
    }

    fn instructions(&self, abouts: &[Option<Arc<About>>]) -> Option<String> {
        if let Some(ours) = &self.profile.instructions {
            return Some(ours.clone());
        }
        let texts = (abouts.iter().zip(&self.profile.members)).filter_map(|(about, member)| {
            let text = about.as_ref()?.instructions.as_ref().filter(|text| !text.trim().is_empty())?;
            Some(format!("## {}\n\n{}", member.backend.id(), text.trim()))
        });
        let joined = texts.collect::<Vec<_>>().join("\n\n");
        (!joined.is_empty()).then_some(joined)
    }
}

/// Whether `capabilities` declares this capability (an object), and in it this field as true.
pub(super) fn has(capabilities: &Raw, capability: &str, field: Option<&str>) -> bool {
    let text = &capabilities.to_bytes();
    let Some(declared) = splice::member(text, 0, capability) else { return false };
    let is_object = text[declared.start as usize] == b'{';
    is_object
        && field.is_none_or(|field| {
            splice::member(text, declared.start, field)
                .is_some_and(|value| text[value.start as usize..].starts_with(b"true"))
        })
}
