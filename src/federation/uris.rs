//! Who owns a URI, and what it is called for clients: unchanged where one member lists it, qualified by the member's id
//! where several do (PROTOCOL, *Lists, names, pages*). Every qualified form can be turned back by itself.

use super::Profile;
use super::parts::{self, Parts};
use super::splice;
use super::template::Template;
use crate::mcp::UpstreamId;
use std::collections::HashMap;
use std::sync::Arc;

/// What the configuration says of URIs.
pub(super) struct UriRules {
    ids: Vec<UpstreamId>,
    /// The member that is the gateway's own, and whose the gateway's URIs are.
    own: Option<usize>,
    /// Longest first, then in configuration order.
    prefixes: Vec<(String, usize)>,
}

impl UriRules {
    pub(super) fn of(profile: &Profile) -> UriRules {
        let ids = profile.members.iter().map(|m| m.backend.id().clone()).collect();
        let mut prefixes: Vec<_> = (profile.members.iter().enumerate())
            .flat_map(|(at, m)| m.uri_prefixes.iter().map(move |prefix| (prefix.clone(), at)))
            .collect();
        prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        let own = profile.members.iter().position(|member| member.own_names);
        UriRules { ids, own, prefixes }
    }

    fn qualify(&self, member: usize, uri: &str) -> String {
        let id = &self.ids[member];
        match uri.strip_prefix("ui://") {
            Some(rest) => format!("ui://{id}/{rest}"),
            None => format!("{id}+{uri}"),
        }
    }

    /// The member and its own URI that a qualified URI names.
    fn unqualify(&self, uri: &str) -> Option<(usize, String)> {
        let (id, rest, scheme) = match uri.strip_prefix("ui://") {
            Some(rest) => rest.split_once('/').map(|(id, rest)| (id, rest, "ui://"))?,
            None => uri.split_once('+').map(|(id, rest)| (id, rest, ""))?,
        };
        let member = self.ids.iter().position(|of| of.as_str() == id)?;
        Some((member, format!("{scheme}{rest}")))
    }

    /// Whether a member's URI would be taken for the gateway's, or for another member's in its qualified form.
    fn is_anothers(&self, member: usize, uri: &str) -> bool {
        match is_ours(uri) {
            true => !self.is_own(member),
            false => self.unqualify(uri).is_some_and(|(of, _)| of != member),
        }
    }

    /// Whether a member is the gateway's own: all URIs that it names are seen as they are.
    pub(super) fn is_own(&self, member: usize) -> bool {
        self.own == Some(member)
    }

    /// Whose one of the gateway's URIs is: that needs no list.
    pub(super) fn ours(&self, uri: &str) -> Option<usize> {
        self.own.filter(|_| is_ours(uri))
    }
}

/// The gateway's own URIs, which no member but its own may bear unqualified.
fn is_ours(uri: &str) -> bool {
    uri.starts_with("plasm:") || uri.starts_with("ui://plasm/")
}

/// The owners of all URIs and templates of the last known lists, for one set of lists.
pub(super) struct Uris {
    rules: Arc<UriRules>,
    /// By the URI that clients see: whose it is, and its own form.
    routes: HashMap<Arc<str>, (usize, Arc<str>)>,
    /// For each member, by its own URI: what clients see.
    shown: Vec<HashMap<Arc<str>, Arc<str>>>,
    /// In configuration order, as clients see them: whose each is.
    templates: Vec<(usize, Template)>,
    /// As `routes` and `shown`, of templates.
    template_routes: HashMap<Arc<str>, (usize, Arc<str>)>,
    shown_templates: Vec<HashMap<Arc<str>, Arc<str>>>,
    /// Held so that no other list can come to stand at their addresses while this is cached by them.
    of: [Parts; 3],
}

impl Uris {
    /// Of the members' tools (for the URIs of their apps, which need not be listed), resources and templates.
    pub(super) fn of(rules: &Arc<UriRules>, tools: Parts, resources: Parts, templates: Parts) -> Uris {
        let mut uris = Uris {
            rules: rules.clone(),
            routes: HashMap::new(),
            shown: vec![HashMap::new(); rules.ids.len()],
            templates: Vec::new(),
            template_routes: HashMap::new(),
            shown_templates: vec![HashMap::new(); rules.ids.len()],
            of: [tools.clone(), resources.clone(), templates.clone()],
        };
        for member in 0..rules.ids.len() {
            for item in resources[member].iter().flat_map(|l| l.items()) {
                uris.own(member, item.name.clone());
            }
            for item in tools[member].iter().flat_map(|l| l.items()) {
                for (_, uri) in splice::app_uris(&item.body) {
                    uris.own(member, uri.into());
                }
            }
            for item in templates[member].iter().flat_map(|l| l.items()) {
                uris.own_template(member, item.name.clone());
            }
        }
        uris
    }

    /// What the lists that it was made of keep alive, in bytes.
    pub(super) fn weight(&self) -> usize {
        self.of.iter().map(parts::weight).sum()
    }

    fn own(&mut self, member: usize, uri: Arc<str>) {
        if self.shown[member].contains_key(&uri) {
            return;
        }
        let mut shown = uri.clone();
        if self.rules.is_anothers(member, &shown) {
            shown = self.rules.qualify(member, &shown).into();
        }
        while self.routes.contains_key(&shown) {
            shown = self.rules.qualify(member, &shown).into();
        }
        self.routes.insert(shown.clone(), (member, uri.clone()));
        self.shown[member].insert(uri, shown);
    }

    fn own_template(&mut self, member: usize, own: Arc<str>) {
        if self.shown_templates[member].contains_key(&own) {
            return;
        }
        let mut shown = own.clone();
        if self.rules.is_anothers(member, &shown) {
            shown = self.rules.qualify(member, &shown).into();
        }
        while self.template_routes.contains_key(&shown) {
            shown = self.rules.qualify(member, &shown).into();
        }
        self.templates.push((member, Template::parse(&shown)));
        self.template_routes.insert(shown.clone(), (member, own.clone()));
        self.shown_templates[member].insert(own, shown);
    }

    /// Whose a URI is that a client names, and how its owner calls it. Never a guess: `None` where nothing says.
    pub(super) fn route(&self, uri: &str) -> Option<(usize, String)> {
        if let Some((member, own)) = self.routes.get(uri) {
            return Some((*member, own.to_string()));
        }
        if is_ours(uri) {
            return self.rules.own.map(|member| (member, uri.to_owned()));
        }
        if let Some(found) = self.rules.unqualify(uri) {
            return Some(found);
        }
        let mut owners = self.templates.iter().filter(|(_, t)| t.matches(uri)).map(|(member, _)| *member);
        let first = owners.next();
        if let Some(member) = first.filter(|first| owners.all(|other| other == *first)) {
            return Some((member, uri.to_owned()));
        }
        let (_, member) = self.rules.prefixes.iter().find(|(prefix, _)| uri.starts_with(prefix.as_str()))?;
        Some((*member, uri.to_owned()))
    }

    /// Whose a template is that a client names in a completion's `ref`.
    pub(super) fn route_template(&self, template: &str) -> Option<(usize, String)> {
        let (member, own) = self.template_routes.get(template)?;
        Some((*member, own.to_string()))
    }

    /// What clients see of a member's URI: itself where it leads back to the member, else its qualified form.
    pub(super) fn shown(&self, member: usize, uri: &str) -> Arc<str> {
        if let Some(shown) = self.shown[member].get(uri) {
            return shown.clone();
        }
        match self.route(uri) {
            Some((owner, own)) if owner == member && own == uri => uri.into(),
            _ => self.rules.qualify(member, uri).into(),
        }
    }

    pub(super) fn shown_template(&self, member: usize, own: &str) -> Arc<str> {
        let known = self.shown_templates[member].get(own);
        known.cloned().unwrap_or_else(|| self.rules.qualify(member, own).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::federation::tests::{listing, member, profile};
    use crate::mcp::Kind;
    use proptest::prelude::*;

    fn uris(resources: [&[&str]; 2], templates: [&[&str]; 2]) -> Uris {
        let rules = Arc::new(UriRules::of(&profile(vec![member("a"), member("b")])));
        let lists = |kind, of: [&[&str]; 2]| of.map(|names| Some(listing(kind, names))).to_vec();
        Uris::of(&rules, vec![None, None], lists(Kind::Resource, resources), lists(Kind::Template, templates))
    }

    #[test]
    fn b076_uris_without_an_authority_make_the_round_trip() {
        for uri in
            ["memo:insights", "urn:x:y", "data:text/plain,hi%20", "ui://x", "ui://w/app.html", "a+b:c", ""]
        {
            let uris = uris([&[uri], &[uri]], [&[], &[]]);
            assert_eq!(&*uris.shown(0, uri), uri);
            let other = uris.shown(1, uri);
            assert_ne!(&*other, uri);
            assert_eq!(uris.route(uri), Some((0, uri.to_owned())));
            assert_eq!(uris.route(&other), Some((1, uri.to_owned())));
        }
        let uris = uris([&[], &[]], [&["memo:{k}"], &["memo:{k}"]]);
        assert_eq!(&*uris.shown_template(1, "memo:{k}"), "b+memo:{k}");
        assert_eq!(uris.route_template("b+memo:{k}"), Some((1, "memo:{k}".into())));
        assert_eq!(uris.route("memo:insights"), Some((0, "memo:insights".into())));
        assert_eq!(uris.route("b+memo:insights"), Some((1, "memo:insights".into())));
    }

    #[test]
    fn what_two_templates_match_is_not_guessed() {
        let uris = uris([&[], &[]], [&["x://{a}"], &["x://{a}{?q}"]]);
        assert_eq!(uris.route("x://1"), None);
        assert_eq!(uris.route("x://1?q=2"), Some((1, "x://1?q=2".into())));
    }

    #[test]
    fn the_longest_configured_prefix_owns_what_nobody_lists() {
        let (mut a, mut b) = (member("a"), member("b"));
        a.uri_prefixes = vec!["file:///".to_owned()];
        b.uri_prefixes = vec!["file:///b/".to_owned()];
        let rules = Arc::new(UriRules::of(&profile(vec![a, b])));
        let uris = Uris::of(&rules, vec![None, None], vec![None, None], vec![None, None]);
        assert_eq!(uris.route("file:///b/x").map(|(m, _)| m), Some(1));
        assert_eq!(uris.route("file:///c").map(|(m, _)| m), Some(0));
        assert_eq!(uris.route("http://c"), None);
    }

    #[test]
    fn no_member_can_list_what_leads_to_another() {
        for (listed, hers) in [("b+file:///x", "file:///x"), ("ui://b/app", "ui://app")] {
            let uris = uris([&[listed], &[]], [&["b+x://{y}"], &[]]);
            assert_eq!(uris.route(listed), Some((1, hers.to_owned())));
            assert_eq!(uris.route(&uris.shown(0, listed)), Some((0, listed.to_owned())));
            assert_eq!(&*uris.shown_template(0, "b+x://{y}"), "a+b+x://{y}");
            assert_eq!(uris.route("b+x://1"), Some((1, "x://1".into())));
        }
    }

    #[test]
    fn the_gateways_own_uris_are_nobody_elses() {
        let uris = uris([&["plasm:x", "ui://plasm/x"], &[]], [&["{+anything}"], &[]]);
        assert_eq!(&*uris.shown(0, "plasm:x"), "a+plasm:x");
        assert_eq!(uris.route("plasm:x"), None);
        assert_eq!(uris.route("ui://a/plasm/x"), Some((0, "ui://plasm/x".into())));
    }

    #[test]
    fn the_gateways_own_member_bears_its_uris_and_nobody_else_does() {
        let (a, mut own) = (member("a"), member("plasm"));
        own.own_names = true;
        let rules = Arc::new(UriRules::of(&profile(vec![a, own])));
        let pages: &[&str] = &["ui://plasm/x", "plasm:x"];
        let lists = |kind, of: [&[&str]; 2]| of.map(|names| Some(listing(kind, names))).to_vec();
        let uris = Uris::of(
            &rules,
            vec![None, None],
            lists(Kind::Resource, [pages, pages]),
            lists(Kind::Template, [&[], &["plasm://session/{session}/r/{n}"]]),
        );
        for uri in ["ui://plasm/x", "plasm:x", "plasm://session/l/r/1"] {
            assert_eq!(uris.route(uri), Some((1, uri.to_owned())));
            assert_eq!(&*uris.shown(1, uri), uri);
            assert_eq!(rules.ours(uri), Some(1));
        }
        assert_eq!(&*uris.shown(0, "plasm:x"), "a+plasm:x");
        assert_eq!(uris.route("a+plasm:x"), Some((0, "plasm:x".into())));
        assert_eq!(
            &*uris.shown_template(1, "plasm://session/{session}/r/{n}"),
            "plasm://session/{session}/r/{n}"
        );
        assert_eq!(rules.ours("file:///x"), None);
    }

    proptest! {
        #[test]
        fn every_uri_a_client_is_shown_leads_back_to_its_owner(
            lists in prop::array::uniform2(prop::collection::vec("(a\\+|b\\+|ui://|ui://a/|memo:)?[a-c]{0,2}", 0..6)),
            link in "(a\\+|b\\+|ui://|ui://a/|memo:)?[a-c]{0,2}",
        ) {
            let lists = lists.map(|l| l.into_iter().collect::<Vec<String>>());
            let refs = [0, 1].map(|m| lists[m].iter().map(String::as_str).collect::<Vec<_>>());
            let uris = uris([&refs[0], &refs[1]], [&["memo:{k}"], &[]]);
            for (member, list) in refs.iter().enumerate() {
                for uri in list {
                    prop_assert_eq!(uris.route(&uris.shown(member, uri)), Some((member, uri.to_string())));
                }
            }
            let shown = uris.shown(1, &link);
            if !uris.routes.contains_key(&shown) {
                prop_assert_eq!(uris.route(&shown), Some((1, link)));
            }
        }
    }
}
