//! The operator's rules on tool calls, as far as they concern one upstream in one profile. The first that speaks of a call
//! decides it; what depends on tool and caller alone is worked out once, what depends on arguments at each call.

use super::arguments::{self, Ambiguous};
use super::who::{Who, matches_any};
use crate::config::{self, Annotations, Condition, Verdict};
use crate::wire::{Raw, json};
use smallvec::SmallVec;
use std::sync::Arc;

/// The rules that may speak of one upstream's tools in one profile.
pub(super) struct Rules {
    default: Verdict,
    rules: Vec<Rule>,
}

pub(super) struct Rule {
    pub(super) name: Arc<str>,
    then: Verdict,
    pub(super) because: Option<String>,
    pub(super) instead: Option<String>,
    tools: Vec<String>,
    annotations: Annotations,
    who: Who,
    arguments: Vec<Condition>,
}

/// What a tool says of itself, with the specification's defaults (2025-11-25 schema, *ToolAnnotations*).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hints {
    pub(super) read_only: bool,
    pub(super) destructive: bool,
    pub(super) idempotent: bool,
    pub(super) open_world: bool,
}

/// What is decided of one tool for one kind of caller: the rules that arguments decide about, and what else holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Decided {
    by_arguments: SmallVec<[usize; 2]>,
    /// The rule that speaks of every call; `None`: none does.
    last: Option<usize>,
}

impl Rules {
    pub(super) fn of(policy: &config::Policy, profile: &str, upstream: &str) -> Rules {
        let concerned = policy
            .rules
            .iter()
            .filter(|rule| matches_any(&rule.profiles, profile) && matches_any(&rule.upstreams, upstream));
        let rules = concerned.map(|rule| Rule {
            name: rule.name.as_str().into(),
            then: rule.then,
            because: rule.because.clone(),
            instead: rule.instead.clone(),
            tools: rule.tools.clone(),
            annotations: rule.annotations,
            who: Who {
                principals: rule.principals.clone(),
                scopes: rule.scopes.clone(),
                ..Who::of(&rule.tenants, &rule.claims)
            },
            arguments: rule.arguments.clone(),
        });
        Rules { default: policy.default, rules: rules.collect() }
    }

    /// Whether every call is allowed, whoever makes it.
    pub(super) fn is_idle(&self) -> bool {
        self.default == Verdict::Allow && self.rules.iter().all(|rule| rule.then == Verdict::Allow)
    }

    /// For whom each rule is, in their order.
    pub(super) fn whos(&self) -> impl Iterator<Item = &Who> {
        self.rules.iter().map(|rule| &rule.who)
    }

    /// What is decided of a tool. `fits`: of each rule, whether it is for the caller.
    pub(super) fn decide(&self, tool: &str, hints: Hints, fits: &[bool]) -> Decided {
        let mut decided = Decided::default();
        for (at, rule) in self.rules.iter().enumerate() {
            if !fits[at] || !matches_any(&rule.tools, tool) || !hints.fit(&rule.annotations) {
                continue;
            }
            if rule.arguments.is_empty() {
                decided.last = Some(at);
                break;
            }
            decided.by_arguments.push(at);
        }
        decided
    }

    /// Whether every call is allowed, whatever its arguments.
    pub(super) fn always_allows(&self, decided: &Decided) -> bool {
        decided.by_arguments.is_empty() && self.verdict(decided.last) == Verdict::Allow
    }

    /// What happens to a call of which the arguments are not known: the first that does not allow it, of those that may speak
    /// of it.
    pub(super) fn surely(&self, decided: &Decided) -> Verdict {
        let mut said = decided.by_arguments.iter().map(|at| self.rules[*at].then);
        said.find(|verdict| *verdict != Verdict::Allow).unwrap_or_else(|| self.verdict(decided.last))
    }

    /// What happens to a call with these arguments, and by which rule.
    pub(super) fn judge(
        &self,
        decided: &Decided,
        arguments: Option<&[u8]>,
    ) -> Result<(Verdict, Option<&Rule>), Ambiguous> {
        for at in &decided.by_arguments {
            let mut all = true;
            for condition in &self.rules[*at].arguments {
                all = all && arguments::holds(condition, arguments)?;
            }
            if all {
                return Ok((self.rules[*at].then, Some(&self.rules[*at])));
            }
        }
        Ok((self.verdict(decided.last), decided.last.map(|at| &self.rules[at])))
    }

    fn verdict(&self, last: Option<usize>) -> Verdict {
        last.map_or(self.default, |at| self.rules[at].then)
    }
}

impl Hints {
    /// Of a tool as it is listed.
    pub(super) fn of(tool: &Raw) -> Hints {
        let text = tool.to_bytes();
        let members = |at| json::lax_members(&text, at).unwrap_or_default();
        let said = members(0).into_iter().find(|m| m.is("annotations")).map(|m| members(m.value.start));
        let said = said.unwrap_or_default();
        let hint = |key: &str, default: bool| {
            let value =
                said.iter().find(|m| m.is(key)).map(|m| &text[m.value.start as usize..m.value.end as usize]);
            match value {
                Some(b"true") => true,
                Some(b"false") => false,
                _ => default,
            }
        };
        let read_only = hint("readOnlyHint", false);
        Hints {
            read_only,
            destructive: !read_only && hint("destructiveHint", true),
            idempotent: hint("idempotentHint", false),
            open_world: hint("openWorldHint", true),
        }
    }

    fn fit(&self, wanted: &Annotations) -> bool {
        wanted.read_only.is_none_or(|wanted| wanted == self.read_only)
            && wanted.destructive.is_none_or(|wanted| wanted == self.destructive)
            && wanted.idempotent.is_none_or(|wanted| wanted == self.idempotent)
            && wanted.open_world.is_none_or(|wanted| wanted == self.open_world)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn rules(policy: Value) -> Rules {
        Rules::of(&serde_json::from_value(policy).unwrap(), "default", "files")
    }

    fn judged(rules: &Rules, tool: &str, body: &'static str, arguments: &str) -> (Verdict, Option<String>) {
        let fits: Vec<bool> = rules.whos().map(Who::is_anyone).collect();
        let decided = rules.decide(tool, Hints::of(&Raw::trusted(body)), &fits);
        let (verdict, rule) = rules.judge(&decided, Some(arguments.as_bytes())).unwrap();
        (verdict, rule.map(|rule| rule.name.to_string()))
    }

    #[test]
    fn the_first_rule_that_speaks_of_a_call_decides_it() {
        let rules = rules(json!({"default": "deny", "rules": [
            {"name": "elsewhere", "upstreams": ["mail"], "then": "allow"},
            {"name": "ops", "tenants": ["ops"], "then": "allow"},
            {"name": "etc", "arguments": [{"at": "/path", "prefix": "/etc/"}], "then": "deny"},
            {"name": "reads", "annotations": {"read_only": true}, "then": "allow"},
            {"name": "small", "tools": ["write_*"], "arguments": [{"at": "/n", "max": 9}, {"at": "/path", "exists": true}], "then": "allow"},
            {"name": "risky", "annotations": {"destructive": true}, "tools": ["write_*"], "then": "approve"},
        ]}));
        let (reads, says_nothing) = (r#"{"annotations":{"readOnlyHint":true}}"#, r#"{"name":"x"}"#);
        let judged = |tool, body, arguments| {
            let (verdict, rule) = judged(&rules, tool, body, arguments);
            (verdict, rule.unwrap_or_default())
        };
        assert_eq!(judged("read_file", reads, r#"{"path":"/w"}"#), (Verdict::Allow, "reads".into()));
        assert_eq!(judged("read_file", reads, r#"{"path":"/etc/x"}"#), (Verdict::Deny, "etc".into()));
        assert_eq!(
            judged("write_file", says_nothing, r#"{"path":"/w","n":9}"#),
            (Verdict::Allow, "small".into())
        );
        assert_eq!(
            judged("write_file", says_nothing, r#"{"path":"/w","n":10}"#),
            (Verdict::Approve, "risky".into())
        );
        assert_eq!(judged("other", says_nothing, "{}"), (Verdict::Deny, String::new()));
    }

    #[test]
    fn what_a_tool_does_not_say_is_taken_as_the_specification_takes_it() {
        let hints = |body: &'static str| Hints::of(&Raw::trusted(body));
        let unsaid = Hints { read_only: false, destructive: true, idempotent: false, open_world: true };
        assert_eq!(hints("{}"), unsaid);
        assert_eq!(hints(r#"{"annotations":{"destructiveHint":null,"readOnlyHint":"true"}}"#), unsaid);
        assert_eq!(hints(r#"{"annotations":7}"#), unsaid);
        let reads = hints(r#"{"annotations":{"readOnlyHint":true,"destructiveHint":true}}"#);
        assert!(reads.read_only && !reads.destructive);
    }

    #[test]
    fn rules_that_allow_everything_are_none() {
        assert!(rules(json!({})).is_idle());
        assert!(rules(json!({"rules": [{"name": "a", "then": "allow"}]})).is_idle());
        assert!(!rules(json!({"rules": [{"name": "a", "then": "ask"}]})).is_idle());
        assert!(rules(json!({"rules": [{"name": "a", "upstreams": ["x"], "then": "deny"}]})).is_idle());
    }
}
