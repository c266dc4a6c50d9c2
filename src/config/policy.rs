//! Who may enter a profile and see what in it, rules on calls, the webhook that is asked, and what becomes of tools'
//! definitions: as configured. Says nothing of how any of it is carried out.

use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::problem::KeyPath;
use super::{Config, Ordered, Secret, secret, units};

/// Scopes of a profile: what a client can be granted, and is asked for where it lacks it (403 `insufficient_scope`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProfileScopes {
    /// Scopes without which nobody enters the profile.
    pub required: Vec<String>,
    /// Scopes that tools need besides, by a pattern over `<upstream>__<tool>` with the name that the upstream gives the tool.
    #[schemars(schema_with = "lists_schema")]
    pub tools: Ordered<Vec<String>>,
    /// Scopes that prompts need besides, by a pattern over `<upstream>__<prompt>`.
    #[schemars(schema_with = "lists_schema")]
    pub prompts: Ordered<Vec<String>>,
    /// Scopes that resources and templates need besides, by a pattern over the URI that the upstream gives.
    #[schemars(schema_with = "lists_schema")]
    pub resources: Ordered<Vec<String>>,
    /// What a client lacks a scope for is neither listed nor known, in place of being listed and answered with 403.
    pub hide: bool,
}

/// What of a profile exists for some alone. What no entry names exists for all; what several name, for whom each admits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Only {
    /// Patterns over `<upstream>__<tool>` with the name that the upstream gives the tool.
    pub tools: Vec<String>,
    /// Patterns over `<upstream>__<prompt>`.
    pub prompts: Vec<String>,
    /// Patterns over the URIs of resources and templates that the upstream gives.
    pub resources: Vec<String>,
    /// Patterns over tenants. Empty: any.
    pub tenants: Vec<String>,
    /// Patterns over the values of claims, by the claim's name or JSON pointer; each claim must have a value that matches.
    #[schemars(schema_with = "lists_schema")]
    pub claims: Ordered<Vec<String>>,
}

/// Policy on tool calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// What happens to a call that no rule speaks of.
    pub default: Verdict,
    /// In order: the first rule that speaks of a call decides it.
    #[schemars(schema_with = "rules_schema")]
    pub rules: Vec<Rule>,
    /// How long a user may take to approve a call, and how long an approval holds for that very call.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema", extend("x-min" = "10s", "x-max" = "10m"))]
    pub approval_life: Duration,
    /// Who is asked where the verdict is `ask`.
    pub webhook: Webhook,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            default: Verdict::Allow,
            rules: Vec::new(),
            approval_life: Duration::from_secs(300),
            webhook: Webhook::default(),
        }
    }
}

/// What is to happen to a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It is carried out.
    #[default]
    Allow,
    /// It is refused, with a result that says why.
    Deny,
    /// The user is asked first.
    Approve,
    /// The webhook decides.
    Ask,
}

/// A rule on tool calls. It speaks of the calls that fit all that it says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Rule {
    /// Its name, for results, logs and the webhook.
    pub name: String,
    /// What happens to a call that it speaks of.
    pub then: Verdict,
    /// Why, for the model and its user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// What to do in place of the call, for the model and its user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead: Option<String>,
    /// Patterns over profiles' names. Empty: any.
    pub profiles: Vec<String>,
    /// Patterns over upstreams. Empty: any.
    pub upstreams: Vec<String>,
    /// Patterns over the names that the upstream gives its tools. Empty: any.
    pub tools: Vec<String>,
    /// What the tool says of itself.
    pub annotations: Annotations,
    /// Patterns over tenants. Empty: any.
    pub tenants: Vec<String>,
    /// Patterns over principals' subjects. Empty: any.
    pub principals: Vec<String>,
    /// Scopes that the principal holds, all of them.
    pub scopes: Vec<String>,
    /// Patterns over the values of claims, by the claim's name or JSON pointer; each claim must have a value that matches.
    #[schemars(schema_with = "lists_schema")]
    pub claims: Ordered<Vec<String>>,
    /// What the arguments are, all of it.
    #[schemars(schema_with = "conditions_schema")]
    pub arguments: Vec<Condition>,
}

/// Annotations of a tool (2025-11-25 *ToolAnnotations*), with the specification's defaults where it does not say: not
/// read-only, destructive, not idempotent, open to the world. A read-only tool is not destructive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Annotations {
    /// `readOnlyHint`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// `destructiveHint`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// `idempotentHint`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// `openWorldHint`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

/// A condition on one argument.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Condition {
    /// JSON pointer (RFC 6901) into the arguments, such as `/path` or `/items/0/id`.
    #[schemars(extend("x-format" = "pointer"))]
    pub at: String,
    /// Whether there is a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exists: Option<bool>,
    /// The value is this text, number, true or false.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_schema")]
    pub equals: Option<Json>,
    /// The value is text that one of these patterns matches.
    pub glob: Vec<String>,
    /// The value is text that begins so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The value is a number of at least this.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "number_schema")]
    pub min: Option<f64>,
    /// The value is a number of at most this.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "number_schema")]
    pub max: Option<f64>,
    /// The condition holds where all that is not so.
    pub not: bool,
}

/// The webhook that decides on calls: a POST of JSON that says who wants to call what, answered by JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Webhook {
    /// Its address; it may lie inside.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-format" = "http-url"))]
    pub url: Option<String>,
    /// A secret that is sent as `Authorization: Bearer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "secret::secret_schema")]
    pub token: Option<Secret>,
    /// Longest wait for its answer, the wait for a place among those in flight included.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema", extend("x-min" = "10ms", "x-max" = "10s"))]
    pub timeout: Duration,
    /// How long an answer holds for the same question; `0s`: each call is a question.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema", extend("x-min" = "0s", "x-max" = "1h"))]
    pub cache: Duration,
    /// What happens where it does not answer.
    pub on_failure: OnFailure,
    /// Most questions in flight in one pod.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_in_flight: u32,
    /// Sends the arguments of the call, and counts them as part of the question.
    pub arguments: bool,
}

impl Default for Webhook {
    fn default() -> Self {
        Self {
            url: None,
            token: None,
            timeout: Duration::from_secs(2),
            cache: Duration::from_secs(10),
            on_failure: OnFailure::Deny,
            max_in_flight: 64,
            arguments: false,
        }
    }
}

/// What happens to a call where the webhook does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    #[default]
    Deny,
    Allow,
}

/// What clients are shown of a tool in place of what the upstream says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Override {
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Arguments that clients neither see nor may give.
    pub hidden: Vec<String>,
    /// Arguments that each call bears, with these values; clients neither see nor may give them.
    #[schemars(schema_with = "values_schema")]
    pub fixed: Ordered<Json>,
}

/// What happens when an upstream changes the definition of a tool that it had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Pin {
    /// Definitions are not remembered.
    #[default]
    Off,
    /// It is logged and counted.
    Warn,
    /// Besides, the tool is neither listed nor called until the change is accepted.
    Refuse,
}

/// What is wrong in what is configured here.
pub(super) fn check(config: &Config, wrong: &mut Vec<(KeyPath, String)>) {
    let policy = &config.policy;
    let mut say = |path: KeyPath, why: &str| wrong.push((path, why.to_owned()));
    let above = KeyPath::of(&["policy"]);
    let asks = |verdict: Verdict| verdict == Verdict::Ask && policy.webhook.url.is_none();
    let who = "asks the webhook, and there is no policy.webhook.url";
    if asks(policy.default) {
        say(above.then("default"), who);
    }
    if policy.webhook.token.is_some() && policy.webhook.url.is_none() {
        say(above.then("webhook").then("token"), "needs url beside it");
    }
    for (index, rule) in policy.rules.iter().enumerate() {
        let path = above.then("rules").item(index);
        if rule.name.is_empty() {
            say(path.then("name"), "is needed: results and logs speak of the rule by it");
        }
        if asks(rule.then) {
            say(path.then("then"), who);
        }
        for (at, condition) in rule.arguments.iter().enumerate() {
            let path = path.then("arguments").item(at);
            if condition.at.is_empty() {
                say(path.then("at"), "is needed: a JSON pointer such as /path");
            }
            if (Condition { at: String::new(), not: false, ..condition.clone() }) == Condition::default() {
                say(path.clone(), "says nothing of the argument");
            }
            if matches!(condition.equals, Some(Json::Array(_) | Json::Object(_) | Json::Null)) {
                say(path.then("equals"), "is text, a number, true or false");
            }
        }
    }
    for (name, profile) in config.profiles.iter() {
        for (index, only) in profile.only.iter().enumerate() {
            let path = KeyPath::of(&["profiles", name, "only"]).item(index);
            if only.tools.is_empty() && only.prompts.is_empty() && only.resources.is_empty() {
                say(path, "names no tools, prompts or resources");
            } else if only.tenants.is_empty() && only.claims.is_empty() {
                say(path, "says neither by tenants nor by claims for whom");
            }
        }
    }
    for (id, upstream) in config.upstreams.iter() {
        for (tool, over) in upstream.overrides.iter() {
            if let Some(twice) = over.hidden.iter().find(|name| over.fixed.get(name).is_some()) {
                let path = KeyPath::of(&["upstreams", id, "overrides", tool, "hidden"]);
                wrong.push((path, format!("{twice:?} is fixed, and hidden by that")));
            }
        }
        if !upstream.pins.is_empty() && upstream.pin == Pin::Off {
            let path = KeyPath::of(&["upstreams", id, "pins"]);
            wrong.push((path, "have no effect while pin is off".to_owned()));
        }
    }
}

/// A map of lists of text.
pub(super) fn lists_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": { "type": "array", "items": { "type": "string" } },
    })
}

pub(super) fn only_schema(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": generator.subschema_for::<Only>() })
}

fn values_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "additionalProperties": { "x-format": "json" } })
}

fn any_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-format": "json" })
}

fn number_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "number", "x-format": "number" })
}

fn rules_schema(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": generator.subschema_for::<Rule>() })
}

fn conditions_schema(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": generator.subschema_for::<Condition>() })
}
