//! Who may enter a profile. What claims or tenant refuse is as if it did not exist; what a scope lacks can be granted.

use super::who::Who;
use crate::config;
use crate::mcp::{Access, Scopes};

/// The entry of one profile.
#[derive(Debug, Default)]
pub struct Door {
    who: Who,
    scopes: Scopes,
}

/// Whether one is let in.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    In,
    /// For this one there is no such profile.
    Unknown,
    /// It lacks scopes that it can be granted: all that the profile asks for.
    Lacks(Scopes),
}

impl Door {
    pub fn of(profile: &config::Profile) -> Door {
        Door {
            who: Who::of(&profile.tenants, &profile.claims),
            scopes: profile.scopes.required.iter().map(|scope| scope.as_str().into()).collect(),
        }
    }

    /// The scopes without which nobody enters.
    pub fn scopes(&self) -> &Scopes {
        &self.scopes
    }

    #[inline]
    pub fn admit(&self, access: &Access) -> Admission {
        if !self.who.is_anyone() && !self.who.fits(access) {
            return Admission::Unknown;
        }
        match self.scopes.iter().all(|scope| access.scopes.has(scope)) {
            true => Admission::In,
            false => Admission::Lacks(self.scopes.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::who::tests::access;
    use super::*;
    use serde_json::json;

    #[test]
    fn a_door_hides_from_strangers_and_asks_the_others_for_scopes() {
        let profile = config::Profile {
            tenants: vec!["acme".into()],
            claims: [("dept".to_owned(), vec!["eng".to_owned()])].into_iter().collect(),
            scopes: config::ProfileScopes { required: vec!["mcp:dev".into()], ..Default::default() },
            ..Default::default()
        };
        let door = Door::of(&profile);
        let admit = |tenant, scopes, dept: &str| door.admit(&access(tenant, scopes, json!({ "dept": dept })));
        assert_eq!(admit("acme", "mcp:dev", "eng"), Admission::In);
        assert_eq!(admit("acme", "x", "eng"), Admission::Lacks(Scopes::read("mcp:dev")));
        assert_eq!(admit("acme", "mcp:dev", "ops"), Admission::Unknown);
        assert_eq!(admit("other", "", "eng"), Admission::Unknown);
        assert_eq!(Door::default().admit(&access("", "", json!({}))), Admission::In);
    }
}
