//! One upstream's list as one kind of caller sees it, and what is decided of each tool in it: worked out once for each list and
//! each kind of caller, however many callers are of that kind.

use super::overrides::{Override, Overrides};
use super::parts::{Parts, Seen};
use super::pins::Changed;
use super::rules::{Decided, Hints, Rules};
use crate::mcp::{Access, Kind, Listing, Scopes};
use std::collections::HashMap;
use std::sync::Arc;

/// What is said of one upstream in one profile, whoever calls.
pub(super) struct Said {
    pub(super) parts: Parts,
    pub(super) rules: Rules,
    pub(super) overrides: Overrides,
    /// Whether its callers connect accounts of theirs.
    pub(super) connects: bool,
}

/// A kind of caller: all for whom the same parts and rules are.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Standing {
    pub(super) parts: Box<[bool]>,
    rules: Box<[bool]>,
}

/// A list as a kind of caller sees it.
pub(super) struct View {
    pub(super) shown: Arc<Listing>,
    tools: HashMap<Arc<str>, Tool>,
    /// Held so that nothing else can come to stand at their addresses while this is cached by them.
    _of: (Arc<Listing>, Changed),
}

/// What is decided of a tool.
pub(super) struct Tool {
    pub(super) lacks: Option<Scopes>,
    pub(super) decided: Decided,
    pub(super) hints: Hints,
    pub(super) over: Option<Arc<Override>>,
    /// Its definition is not the accepted one, and it is not to be called.
    pub(super) changed: bool,
    /// Whether each call may be made as it comes.
    pub(super) free: bool,
}

impl Said {
    pub(super) fn standing(&self, access: &Access) -> Standing {
        let rules = self.rules.whos().map(|who| who.fits(access)).collect();
        Standing { parts: self.parts.met(access), rules }
    }

    /// `changed`: the tools that are refused for their definitions.
    pub(super) fn view(&self, of: &Arc<Listing>, standing: &Standing, changed: &Changed) -> View {
        let (mut items, mut tools) = (Vec::with_capacity(of.items().len()), HashMap::new());
        let divided = self.parts.divide(of.kind);
        let mut differs = divided;
        for item in of.items() {
            let seen = self.parts.see(of.kind, &item.name, &standing.parts);
            if seen == Seen::Hidden {
                continue;
            }
            if of.kind != Kind::Tool {
                items.push(item.clone());
                continue;
            }
            let over = self.overrides.get(&item.name);
            let is_changed = changed.contains(&item.name);
            match over {
                _ if is_changed => differs = true,
                Some(over) => {
                    differs = true;
                    items.push(over.show(item));
                }
                None => items.push(item.clone()),
            }
            let hints = Hints::of(&item.body);
            let decided = self.rules.decide(&item.name, hints, &standing.rules);
            let lacks = match seen {
                Seen::Lacks(scopes) => Some(scopes),
                Seen::Here | Seen::Hidden => None,
            };
            let free = lacks.is_none() && over.is_none() && !is_changed && self.rules.always_allows(&decided);
            let tool = Tool { lacks, decided, hints, over: over.cloned(), changed: is_changed, free };
            // Of a name given twice the first is what the upstream's list is found by.
            tools.entry(item.name.clone()).or_insert(tool);
        }
        let shown = match differs {
            false => of.clone(),
            true => {
                let mut shown = Listing::new(of.kind, items);
                shown.private = of.private || divided;
                shown.ttl_ms = if divided { 0 } else { of.ttl_ms };
                shown.left_out = of.left_out.clone();
                shown.missing = of.missing.clone();
                Arc::new(shown)
            }
        };
        View { shown, tools, _of: (of.clone(), changed.clone()) }
    }
}

impl View {
    pub(super) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.get(name)
    }
}
