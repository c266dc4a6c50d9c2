//! For whom something is: tenants, principals, scopes and claims, as the configuration names them.

use crate::config::{Ordered, glob};
use crate::mcp::Access;
use serde_json::Value;
use std::borrow::Cow;

/// Conditions on who calls; all of them must hold, and none holds for everybody.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Who {
    /// Patterns; empty: any.
    pub(super) tenants: Vec<String>,
    /// Patterns over subjects; empty: any.
    pub(super) principals: Vec<String>,
    /// Held, all of them.
    pub(super) scopes: Vec<String>,
    pub(super) claims: Vec<Claim>,
}

/// A claim that must have a value which one of the patterns matches.
#[derive(Debug, PartialEq)]
pub(super) struct Claim {
    /// Its name, or a JSON pointer to it.
    at: String,
    patterns: Vec<String>,
}

impl Who {
    pub(super) fn of(tenants: &[String], claims: &Ordered<Vec<String>>) -> Who {
        let claims =
            claims.iter().map(|(at, patterns)| Claim { at: at.to_owned(), patterns: patterns.clone() });
        Who { tenants: tenants.to_vec(), claims: claims.collect(), ..Who::default() }
    }

    /// Whether they hold for everybody.
    pub(super) fn is_anyone(&self) -> bool {
        let Who { tenants, principals, scopes, claims } = self;
        tenants.is_empty() && principals.is_empty() && scopes.is_empty() && claims.is_empty()
    }

    pub(super) fn fits(&self, access: &Access) -> bool {
        let principal = &access.principal;
        matches_any(&self.tenants, &principal.tenant)
            && matches_any(&self.principals, &principal.subject)
            && self.scopes.iter().all(|scope| access.scopes.has(scope))
            && self.claims.iter().all(|claim| claim.fits(access))
    }
}

impl Claim {
    fn fits(&self, access: &Access) -> bool {
        let value = match self.at.strip_prefix('/') {
            None => access.claims.get(&self.at),
            Some(path) => {
                let (first, rest) =
                    path.split_once('/').map_or((path, None), |(first, rest)| (first, Some(rest)));
                let first = first.replace("~1", "/").replace("~0", "~");
                access.claims.get(&first).and_then(|value| match rest {
                    None => Some(value),
                    Some(rest) => value.pointer(&format!("/{rest}")),
                })
            }
        };
        match value {
            Some(Value::Array(values)) => values.iter().any(|value| self.takes(value)),
            Some(value) => self.takes(value),
            None => false,
        }
    }

    fn takes(&self, value: &Value) -> bool {
        let text: Cow<'_, str> = match value {
            Value::String(text) => text.as_str().into(),
            Value::Bool(_) | Value::Number(_) => value.to_string().into(),
            _ => return false,
        };
        self.patterns.iter().any(|pattern| glob::matches(pattern, &text))
    }
}

/// Whether a pattern matches; all match where there are none.
pub(super) fn matches_any(patterns: &[String], name: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| glob::matches(pattern, name))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::mcp::{Principal, Scopes};
    use serde_json::json;
    use std::sync::Arc;

    pub(in crate::policy) fn access(tenant: &str, scopes: &str, claims: Value) -> Arc<Access> {
        let principal = Arc::new(Principal::minted(tenant, "https://idp", "ann"));
        let claims = claims.as_object().cloned().unwrap_or_default();
        Arc::new(Access { scopes: Scopes::read(scopes), claims: claims.into(), ..Access::open(principal) })
    }

    #[test]
    fn every_condition_must_hold_and_claims_are_found_by_name_or_pointer() {
        let claims = json!({
            "email": "ann@example.com", "admin": true, "https://x/y": "z",
            "realm_access": {"roles": ["dev", "ops"]}, "a/b": {"c": 7}, "odd": {"x": 1},
        });
        let ann = access("acme", "mcp:read mcp:write", claims);
        let claim = |at: &str, pattern: &str| {
            let claims = [(at.to_owned(), vec![pattern.to_owned()])].into_iter().collect();
            Who::of(&[], &claims).fits(&ann)
        };
        assert!(claim("email", "*@example.com") && claim("admin", "true") && claim("https://x/y", "z"));
        assert!(
            claim("/realm_access/roles", "ops")
                && claim("/a~1b/c", "7")
                && claim("/realm_access/roles/0", "dev")
        );
        assert!(!claim("email", "*@example.org") && !claim("none", "*") && !claim("odd", "*"));
        let tenant = |pattern: &str| Who::of(&[pattern.to_owned()], &Ordered::default()).fits(&ann);
        assert!(tenant("ac*") && !tenant("other"));
        let scoped = |scopes: &[&str]| {
            Who { scopes: scopes.iter().map(ToString::to_string).collect(), ..Who::default() }.fits(&ann)
        };
        assert!(scoped(&["mcp:read", "mcp:write"]) && !scoped(&["mcp:read", "mcp:admin"]));
        assert!(Who::default().is_anyone() && Who::default().fits(&ann));
    }
}
