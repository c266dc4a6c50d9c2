//! What a profile's callers may call of catalogs. A catalog is judged as an upstream by its id, an operation as its tool, so
//! that what is refused as a tool is refused in a program. A program can ask nobody for approval: what needs it is refused.

use super::parts::{Parts, Seen};
use super::rules::{Hints, Rules};
use crate::config::{self, DEFAULT_PROFILE, Globs, Verdict};
use crate::mcp::{Access, Kind};
use std::sync::Arc;

/// Catalogs whose rules are remembered.
const REMEMBERED: u64 = 1_000;

/// What policy says of the operations of catalogs in one profile.
pub struct Operations {
    name: String,
    policy: config::Policy,
    profile: config::Profile,
    said: moka::sync::Cache<String, Arc<Said>>,
}

struct Said {
    parts: Parts,
    rules: Rules,
}

/// What an operation does.
#[derive(Clone, Copy, Debug)]
pub struct Acts {
    pub reads: bool,
    pub destroys: bool,
    /// The same call again changes nothing more.
    pub repeats: bool,
}

impl Operations {
    /// `None`: everything is allowed to everybody.
    pub fn of(policy: &config::Policy, name: &str, profile: &config::Profile) -> Option<Operations> {
        let open =
            policy.default == Verdict::Allow && policy.rules.iter().all(|rule| rule.then == Verdict::Allow);
        let told = profile.only.iter().any(|only| !only.tools.is_empty()) || !profile.scopes.tools.is_empty();
        if open && !told && profile.tools.deny.is_empty() {
            return None;
        }
        let name = if name.is_empty() { DEFAULT_PROFILE } else { name };
        Some(Operations {
            name: name.to_owned(),
            policy: policy.clone(),
            profile: profile.clone(),
            said: moka::sync::Cache::new(REMEMBERED),
        })
    }

    /// Whether every call of the operation is allowed to the caller. A rule that looks at arguments and does not allow is
    /// taken to speak of it, as nobody knows what a program will give.
    pub fn admit(&self, access: &Access, api: &str, operation: &str, acts: Acts) -> bool {
        let denied = Globs { allow: Vec::new(), deny: self.profile.tools.deny.clone() };
        if !denied.admits(&format!("{api}__{operation}")) {
            return false;
        }
        let said = self.said.get_with(api.to_owned(), || {
            Arc::new(Said {
                parts: Parts::of(&self.profile, api),
                rules: Rules::of(&self.policy, &self.name, api),
            })
        });
        if said.parts.see(Kind::Tool, operation, &said.parts.met(access)) != Seen::Here {
            return false;
        }
        let hints = Hints {
            read_only: acts.reads,
            destructive: acts.destroys,
            idempotent: acts.repeats,
            open_world: true,
        };
        let fits: Vec<bool> = said.rules.whos().map(|who| who.fits(access)).collect();
        said.rules.surely(&said.rules.decide(operation, hints, &fits)) == Verdict::Allow
    }
}

#[cfg(test)]
mod tests {
    use super::super::who::tests::access;
    use super::*;
    use serde_json::{Value, json};

    const READS: Acts = Acts { reads: true, destroys: false, repeats: true };
    const WRITES: Acts = Acts { reads: false, destroys: true, repeats: false };

    fn operations(policy: Value, profile: Value) -> Option<Operations> {
        let policy = serde_json::from_value(policy).unwrap();
        Operations::of(&policy, "", &serde_json::from_value(profile).unwrap())
    }

    #[test]
    fn nobody_judges_where_nothing_is_said() {
        assert!(operations(json!({}), json!({"tools": {"allow": ["files__*"]}})).is_none());
        let allows = json!({"rules": [{"name": "all", "then": "allow"}]});
        assert!(operations(allows, json!({"scopes": {"resources": {"x:*": ["x"]}}})).is_none());
    }

    #[test]
    fn a_profile_hides_operations_as_it_hides_tools() {
        let profile = json!({
            "tools": {"allow": ["files__*"], "deny": ["*__*_delete"]},
            "scopes": {"tools": {"tracker__issue_create": ["tracker:write"]}},
            "only": [{"tools": ["tracker__audit_*"], "tenants": ["ops"]}],
        });
        let some = operations(json!({}), profile).unwrap();
        let (anyone, ops) = (access("", "", json!({})), access("ops", "tracker:write", json!({})));
        assert!(some.admit(&anyone, "tracker", "issue_list", READS));
        for (operation, for_ops) in [("issue_create", true), ("audit_list", true), ("issue_delete", false)] {
            assert!(!some.admit(&anyone, "tracker", operation, READS), "{operation}");
            assert_eq!(some.admit(&ops, "tracker", operation, READS), for_ops, "{operation}");
        }
    }

    #[test]
    fn rules_hold_and_whatever_could_be_refused_is() {
        let some = operations(
            json!({"default": "deny", "rules": [
                {"name": "etc", "upstreams": ["files"], "arguments": [{"at": "/path", "prefix": "/etc/"}], "then": "deny"},
                {"name": "some", "upstreams": ["files"], "arguments": [{"at": "/n", "max": 9}], "then": "allow"},
                {"name": "risky", "annotations": {"destructive": true}, "then": "approve"},
                {"name": "reads", "annotations": {"read_only": true}, "profiles": ["default"], "then": "allow"},
            ]}),
            json!({}),
        );
        let some = some.unwrap();
        let anyone = access("", "", json!({}));
        assert!(some.admit(&anyone, "tracker", "issue_list", READS));
        assert!(!some.admit(&anyone, "tracker", "issue_delete", WRITES));
        assert!(!some.admit(&anyone, "files", "read", READS), "its path may be one that is denied");
        let other = Acts { reads: false, destroys: false, repeats: false };
        assert!(!some.admit(&anyone, "tracker", "issue_create", other));
    }
}
