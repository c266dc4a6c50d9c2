//! The names that clients see, from the configuration alone: never from what happens to be listed now, so that a name
//! means one thing on every pod and at every time (PROTOCOL, *Lists, names, pages*).

use super::Profile;
use crate::config::Globs;
use crate::mcp::{CONNECT_TOOL, UpstreamId};
use aws_lc_rs::digest;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

/// The most characters of a name that we make: clients put their own prefix before it and refuse more than 64.
const LONGEST: usize = 60;
/// Hexadecimal digits of an alias's hash.
const DIGITS: usize = 12;

/// How a profile names its members' tools and prompts.
pub(super) struct Naming {
    members: Vec<MemberNaming>,
    /// The renames that hold, by the new name.
    renamed: HashMap<String, (usize, String)>,
    /// `<upstream>__<tool>` patterns.
    tools: Globs,
}

struct MemberNaming {
    id: UpstreamId,
    rename: BTreeMap<String, String>,
    tools: Globs,
    own_names: bool,
}

impl Naming {
    pub(super) fn of(profile: &Profile) -> Naming {
        let mut renamed = HashMap::new();
        let mut members = Vec::new();
        for (at, member) in profile.members.iter().enumerate() {
            let mut rename = BTreeMap::new();
            for (tool, name) in &member.rename {
                if fits(name) && !renamed.contains_key(name) {
                    renamed.insert(name.clone(), (at, tool.clone()));
                    rename.insert(tool.clone(), name.clone());
                }
            }
            members.push(MemberNaming {
                id: member.backend.id().clone(),
                rename,
                tools: member.tools.clone(),
                own_names: member.own_names,
            });
        }
        Naming { members, renamed, tools: profile.tools.clone() }
    }

    /// Whether every tool is admitted under its own name: one member, nothing renamed, nothing refused.
    pub(super) fn is_plain(&self) -> bool {
        let open = |globs: &Globs| globs.allow.is_empty() && globs.deny.is_empty();
        let single = self.members.len() == 1 && self.members.iter().all(|m| open(&m.tools));
        single && self.renamed.is_empty() && open(&self.tools)
    }

    /// The tool that the configuration renamed to this name, and whose it is.
    pub(super) fn renamed(&self, name: &str) -> Option<(usize, &str)> {
        self.renamed.get(name).map(|(member, tool)| (*member, tool.as_str()))
    }

    pub(super) fn renames(&self) -> bool {
        !self.renamed.is_empty()
    }

    /// Whether the profile has this tool, by the name that the member gives it.
    pub(super) fn admits(&self, member: usize, tool: &str) -> bool {
        let of = &self.members[member];
        let open = self.tools.allow.is_empty() && self.tools.deny.is_empty();
        // Whoever may not connect could call nothing that is admitted.
        if tool == CONNECT_TOOL {
            return true;
        }
        of.tools.admits(tool) && (open || of.own_names || self.tools.admits(&format!("{}__{tool}", of.id)))
    }

    /// The name that clients see for a member's tool.
    pub(super) fn tool(&self, member: usize, tool: &str) -> Arc<str> {
        if let Some(name) = self.members[member].rename.get(tool) {
            return name.as_str().into();
        }
        let name = match self.members[member].own_names && fits(tool) {
            true => tool.into(),
            false => self.name(member, tool),
        };
        // Another tool was renamed to this very name, and a rename is what somebody wanted.
        if self.renamed.contains_key(&*name) { alias(&self.members[member].id, tool).into() } else { name }
    }

    /// The name that clients see for a member's prompt; for its tool, renames aside.
    pub(super) fn name(&self, member: usize, name: &str) -> Arc<str> {
        let id = &self.members[member].id;
        // What has names of its own beside it leaves a single member its names: clients keep them in their permissions.
        if self.members.iter().filter(|member| !member.own_names).count() <= 1 {
            return name.into();
        }
        let prefixed = format!("{id}__{name}");
        if !name.is_empty() && fits(&prefixed) { prefixed.into() } else { alias(id, name).into() }
    }

    /// Whose tool this name would be, by its form alone: what tells "away" from "unknown" while a member's list is not
    /// known. Never used to route.
    pub(super) fn suspect(&self, name: &str) -> Option<usize> {
        if let Some((member, _)) = self.renamed(name) {
            return Some(member);
        }
        let (id, _) = name.split_once("__")?;
        self.members.iter().position(|m| m.id.as_str() == id)
    }
}

/// Whether every client takes the name.
fn fits(name: &str) -> bool {
    (1..=LONGEST).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

/// A name for what cannot bear `<upstream>__<name>`: readable as far as it goes, told apart by a hash. Depends on the
/// two alone, and must never change: clients keep names in their permissions.
fn alias(id: &UpstreamId, name: &str) -> String {
    let readable: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-') { c } else { '_' })
        .take(LONGEST - id.as_str().len() - "__".len() - "_".len() - DIGITS)
        .collect();
    let hash = digest::digest(&digest::SHA256, format!("{id}__{name}").as_bytes());
    let mut alias = format!("{id}__{readable}_");
    for byte in &hash.as_ref()[..DIGITS / 2] {
        let _infallible = write!(alias, "{byte:02x}");
    }
    alias
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::federation::Member;
    use crate::federation::tests::{member, profile};
    use proptest::prelude::*;

    #[test]
    fn renames_that_clash_or_that_clients_refuse_count_as_none() {
        let mut a = member("a");
        a.rename = [("x", "same"), ("y", "b__z"), ("w", "not a name")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into();
        let mut b = member("b");
        b.rename = [("x".to_owned(), "same".to_owned())].into();
        let naming = Naming::of(&profile(vec![a, b]));
        assert_eq!(&*naming.tool(0, "x"), "same");
        assert_eq!(&*naming.tool(1, "x"), "b__x");
        assert_eq!(&*naming.tool(0, "w"), "a__w");
        assert_eq!(&*naming.tool(0, "y"), "b__z");
        assert_eq!(*naming.tool(1, "z"), *alias(&UpstreamId::new("b").unwrap(), "z"));
    }

    #[test]
    fn a_member_beside_one_of_own_names_keeps_its_names_and_two_do_not() {
        let own = || Member { own_names: true, ..member("own") };
        let one = Naming::of(&profile(vec![own(), member("a")]));
        assert_eq!((&*one.tool(0, "x"), &*one.tool(1, "y")), ("x", "y"));
        let two = Naming::of(&profile(vec![own(), member("a"), member("b")]));
        assert_eq!((&*two.tool(0, "x"), &*two.tool(1, "y"), &*two.name(2, "y")), ("x", "a__y", "b__y"));
    }

    #[test]
    fn an_alias_never_changes() {
        let id = UpstreamId::new("files").unwrap();
        assert_eq!(alias(&id, "größe/messen"), "files__gr__e_messen_4330adc56d1d");
    }

    proptest! {
        #[test]
        fn every_name_is_one_that_clients_take_and_depends_on_upstream_and_tool_alone(
            id in "[a-z0-9-]{1,20}",
            name in any::<String>(),
            others in 1usize..4,
        ) {
            let mut members = vec![member(&id)];
            members.extend((0..others).map(|n| member(&format!("other-{n}"))));
            let one = Naming::of(&profile(members)).name(0, &name);
            prop_assert!(fits(&one), "{one}");
            let two = Naming::of(&profile(vec![member("z"), member(&id)])).name(1, &name);
            prop_assert_eq!(one, two);
        }

        #[test]
        fn two_tools_never_share_a_name(
            a in "[a-z0-9-]{1,20}", b in "[a-z0-9-]{1,20}", x in "[a-z_]{0,50}", y in "[a-z_]{0,50}",
        ) {
            prop_assume!((&a, &x) != (&b, &y));
            let naming = Naming::of(&profile(vec![member(&a), member(&b)]));
            prop_assert_ne!(naming.name(0, &x), naming.name(1, &y));
        }
    }
}
