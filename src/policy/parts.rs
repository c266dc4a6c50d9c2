//! What of a profile's upstream exists for some alone, and what needs a scope besides. Judged by the names that the upstream
//! gives its things, so that no other name leads around it.

use super::who::Who;
use crate::config::{self, glob};
use crate::mcp::{Kind, Scopes};
use url::Url;

/// What is said of the parts of one upstream in one profile.
pub(super) struct Parts {
    upstream: String,
    parts: Vec<Part>,
}

struct Part {
    /// Patterns over `<upstream>__<name>` for tools and prompts, over URIs for resources.
    tools: Vec<String>,
    prompts: Vec<String>,
    resources: Vec<String>,
    needs: Needs,
}

enum Needs {
    Who(Who),
    Scopes(Scopes),
    /// As `Scopes`, and hidden where they lack.
    Hidden(Scopes),
}

/// How one thing stands to one kind of caller.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Here,
    /// Listed, and needs these scopes.
    Lacks(Scopes),
    /// As if it did not exist.
    Hidden,
}

impl Part {
    fn patterns(&self, kind: Kind) -> &[String] {
        match kind {
            Kind::Tool => &self.tools,
            Kind::Prompt => &self.prompts,
            Kind::Resource | Kind::Template => &self.resources,
        }
    }
}

impl Parts {
    pub(super) fn of(profile: &config::Profile, upstream: &str) -> Parts {
        let only = profile.only.iter().map(|only| Part {
            tools: only.tools.clone(),
            prompts: only.prompts.clone(),
            resources: only.resources.clone(),
            needs: Needs::Who(Who::of(&only.tenants, &only.claims)),
        });
        let config::ProfileScopes { tools, prompts, resources, hide, .. } = &profile.scopes;
        let needs = |scopes: &[String]| {
            let scopes = scopes.iter().map(|scope| scope.as_str().into()).collect();
            if *hide { Needs::Hidden(scopes) } else { Needs::Scopes(scopes) }
        };
        let part = |needs| Part { tools: Vec::new(), prompts: Vec::new(), resources: Vec::new(), needs };
        let one = |pattern: &str| vec![pattern.to_owned()];
        let tools = tools.iter().map(|(at, scopes)| Part { tools: one(at), ..part(needs(scopes)) });
        let prompts = prompts.iter().map(|(at, scopes)| Part { prompts: one(at), ..part(needs(scopes)) });
        let resources =
            resources.iter().map(|(at, scopes)| Part { resources: one(at), ..part(needs(scopes)) });
        let parts = only.chain(tools).chain(prompts).chain(resources).collect();
        Parts { upstream: upstream.to_owned(), parts }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether anything is said of things of this kind.
    pub(super) fn concern(&self, kind: Kind) -> bool {
        self.parts.iter().any(|part| !part.patterns(kind).is_empty())
    }

    /// Whether the list of this kind is not the same for all.
    pub(super) fn divide(&self, kind: Kind) -> bool {
        let hides = |part: &Part| !part.patterns(kind).is_empty() && !matches!(part.needs, Needs::Scopes(_));
        self.parts.iter().any(hides)
    }

    /// Of each part whether the caller has what it needs.
    pub(super) fn met(&self, access: &crate::mcp::Access) -> Box<[bool]> {
        let met = |part: &Part| match &part.needs {
            Needs::Who(who) => who.fits(access),
            Needs::Scopes(scopes) | Needs::Hidden(scopes) => {
                scopes.iter().all(|scope| access.scopes.has(scope))
            }
        };
        self.parts.iter().map(met).collect()
    }

    /// How a thing stands to a caller. `met`: as [`Parts::met`] said.
    pub(super) fn see(&self, kind: Kind, name: &str, met: &[bool]) -> Seen {
        let names = match kind {
            _ if !self.concern(kind) => return Seen::Here,
            Kind::Tool | Kind::Prompt => vec![format!("{}__{name}", self.upstream)],
            Kind::Resource | Kind::Template => spellings(name),
        };
        let mut lacks: Option<Vec<&str>> = None;
        for (part, met) in self.parts.iter().zip(met) {
            let is = |pattern: &String| names.iter().any(|name| glob::matches(pattern, name));
            let named = || part.patterns(kind).iter().any(is);
            match &part.needs {
                Needs::Who(_) | Needs::Hidden(_) if !met && named() => return Seen::Hidden,
                Needs::Scopes(scopes) if !met && named() => {
                    lacks.get_or_insert_default().extend(scopes.iter());
                }
                _ => {}
            }
        }
        match lacks {
            Some(scopes) => Seen::Lacks(scopes.into_iter().map(Into::into).collect()),
            None => Seen::Here,
        }
    }
}

/// How often a URI may be decoded and still be what a server reads as another.
const ROUNDS: usize = 3;

/// A URI as it came, and as servers may read it: without dot segments, doubled slashes and its fragment, scheme and host in
/// lower case, and decoded. What any of these is named by holds.
fn spellings(uri: &str) -> Vec<String> {
    let mut found = vec![uri.to_owned()];
    for _ in 0..ROUNDS {
        let last = found.last().map_or(uri, String::as_str);
        let normal = Url::parse(last).map_or_else(|_| last.to_owned(), normal);
        let plain = decoded(&normal);
        let is_last = plain == *last;
        found.extend([normal, plain]);
        if is_last {
            break;
        }
    }
    found
}

fn normal(mut url: Url) -> String {
    url.set_fragment(None);
    if url.scheme() == "file" {
        url.set_query(None);
    }
    if !url.cannot_be_a_base() && url.path().contains("//") {
        let mut path = url.path().to_owned();
        while path.contains("//") {
            path = path.replace("//", "/");
        }
        url.set_path(&path);
    }
    url.into()
}

fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|byte| (*byte as char).to_digit(16));
    let (mut plain, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        match (bytes[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                plain.push((high << 4 | low) as u8);
                at += 3;
            }
            (byte, ..) => {
                plain.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::who::tests::access;
    use super::*;
    use serde_json::json;

    #[test]
    fn no_other_spelling_of_a_uri_leads_around_what_is_said_of_it() {
        let profile: config::Profile = serde_json::from_value(json!({
            "only": [{"resources": ["file:///etc/*", "https://a.example/my notes/*", "x:ops*"], "tenants": ["acme"]}],
        }))
        .unwrap();
        let parts = Parts::of(&profile, "up");
        let met = parts.met(&access("", "", json!({})));
        let seen = |uri: &str| parts.see(Kind::Resource, uri, &met);
        for hidden in [
            "file:///etc/passwd",
            "file:///tmp/../etc/passwd",
            "file:///tmp/%2e%2E/etc/passwd",
            "file:///tmp/..%2fetc%2fpasswd",
            "file:///%65tc/passwd",
            "file:///%2565tc/passwd",
            "FILE:///etc/passwd",
            "file://localhost/etc/passwd",
            "file:/etc/passwd",
            "file:////etc//passwd",
            "file:///etc\\passwd",
            " file:///etc/passwd",
            "https://A.example:443/my%20notes/1",
            "x:op%73",
            "X:ops/1",
        ] {
            assert_eq!(seen(hidden), Seen::Hidden, "{hidden}");
        }
        for here in
            ["file:///tmp/etc/passwd", "file:///etc", "https://b.example/my notes/1", "x:all", "%", "x:%zz"]
        {
            assert_eq!(seen(here), Seen::Here, "{here}");
        }
    }

    #[test]
    fn what_claims_refuse_is_hidden_and_what_a_scope_lacks_is_told() {
        let profile = |hide: bool| -> config::Profile {
            serde_json::from_value(json!({
                "scopes": {"hide": hide, "tools": {"gh__delete_*": ["repo:write"], "gh__*_all": ["repo:all"]}, "resources": {"file:///etc/*": ["fs"]}},
                "only": [
                    {"tools": ["gh__admin_*"], "prompts": ["gh__ops"], "claims": {"dept": ["ops"]}},
                    {"tools": ["*__acme_*"], "tenants": ["acme"]},
                ],
            }))
            .unwrap()
        };
        let see = |hide, kind, name: &str, tenant, scopes, dept: &str| {
            let parts = Parts::of(&profile(hide), "gh");
            parts.see(kind, name, &parts.met(&access(tenant, scopes, json!({ "dept": dept }))))
        };
        let lacks = |scopes| Seen::Lacks(Scopes::read(scopes));
        assert_eq!(see(false, Kind::Tool, "delete_one", "", "", ""), lacks("repo:write"));
        assert_eq!(see(false, Kind::Tool, "delete_all", "", "", ""), lacks("repo:all repo:write"));
        assert_eq!(see(false, Kind::Tool, "delete_all", "", "repo:write", ""), lacks("repo:all"));
        assert_eq!(see(true, Kind::Tool, "delete_one", "", "", ""), Seen::Hidden);
        assert_eq!(see(true, Kind::Tool, "delete_one", "", "repo:write", ""), Seen::Here);
        assert_eq!(see(false, Kind::Tool, "admin_x", "", "", "eng"), Seen::Hidden);
        assert_eq!(see(false, Kind::Tool, "admin_x", "", "", "ops"), Seen::Here);
        assert_eq!(see(false, Kind::Prompt, "ops", "", "", "eng"), Seen::Hidden);
        assert_eq!(see(false, Kind::Tool, "acme_x", "other", "", ""), Seen::Hidden);
        assert_eq!(see(false, Kind::Resource, "file:///etc/x", "", "", ""), lacks("fs"));
        assert_eq!(see(false, Kind::Template, "file:///etc/{x}", "", "fs", ""), Seen::Here);
        let parts = Parts::of(&profile(false), "gh");
        assert!(parts.divide(Kind::Tool) && parts.divide(Kind::Prompt) && !parts.divide(Kind::Resource));
    }
}
