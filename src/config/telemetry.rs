//! What is told of calls and to whom: traces and the audit.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Traces of calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Telemetry {
    /// `otlp` sends a trace of each call to an OpenTelemetry collector (OTLP over HTTP, protobuf).
    pub traces: Traces,
    /// Address of the collector without the signal's path: `http://collector:4318`. Default: what
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` and its like say, else `http://localhost:4318`. Further headers come from
    /// `OTEL_EXPORTER_OTLP_HEADERS`, attributes of the resource from `OTEL_RESOURCE_ATTRIBUTES`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-format" = "public-url"))]
    pub endpoint: Option<String>,
    /// The part of calls that are traced where the caller does not say: `100%`, `0.5%`.
    #[serde(with = "percent")]
    #[schemars(schema_with = "percent_schema")]
    pub sample: f64,
    /// What the trace context of a client counts for (`traceparent` in `_meta` or in a header): `follow` goes on with its trace,
    /// sampled as it says; `link` begins a trace of its own with a link to it; `ignore` takes no notice.
    pub parents: Parents,
    /// Most ended spans, and as many audit events, that wait for the collector in a pod; further ones are dropped and counted.
    #[schemars(range(min = 16, max = 1_000_000))]
    pub queue: u32,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self { traces: Traces::Off, endpoint: None, sample: 1.0, parents: Parents::Follow, queue: 4096 }
    }
}

/// Where traces go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Traces {
    #[default]
    Off,
    Otlp,
}

/// What a client's trace context counts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Parents {
    #[default]
    Follow,
    Link,
    Ignore,
}

/// The audit: one event a call, whatever becomes of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Audit {
    /// `stdout`: one JSON object a line; `otlp`: log records to the collector of `telemetry.endpoint`.
    pub to: AuditTo,
    /// Tools whose arguments are written too, as patterns of `<upstream>__<tool>` with the name that the upstream gives the
    /// tool (`*` any characters, `?` one). Empty: arguments are never written.
    pub arguments: Vec<String>,
    /// The most that is written of one call's arguments; of longer ones only their size.
    #[serde(with = "super::units::size")]
    #[schemars(schema_with = "super::units::size_schema", extend("x-min" = "64", "x-max" = "64KiB"))]
    pub argument_bytes: usize,
    /// Names of arguments whose values are not written, at any depth and in any case, besides those that usually hold secrets
    /// (`password`, `token`, `secret`, `api_key`, `authorization` and their like, also as parts of a name).
    pub redact: Vec<String>,
}

impl Default for Audit {
    fn default() -> Self {
        Self { to: AuditTo::Off, arguments: Vec::new(), argument_bytes: 2048, redact: Vec::new() }
    }
}

/// Where the audit goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuditTo {
    #[default]
    Off,
    Stdout,
    Otlp,
}

fn percent_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "x-format": "percent" })
}

/// A part between 0 and 1, written as `12.5%`.
pub(super) mod percent {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn parse(text: &str) -> Option<f64> {
        let number: f64 = text.strip_suffix('%')?.trim().parse().ok()?;
        (0.0..=100.0).contains(&number).then_some(number / 100.0)
    }

    pub fn serialize<S: Serializer>(part: &f64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&format!("{}%", part * 100.0))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        let text = String::deserialize(from)?;
        parse(&text).ok_or_else(|| D::Error::custom("expected a part of all such as 10%"))
    }
}

#[cfg(test)]
mod tests {
    use super::percent::parse;

    #[test]
    fn a_part_is_written_as_a_percentage() {
        for (text, want) in [
            ("100%", Some(1.0)),
            ("0.5%", Some(0.005)),
            ("0 %", Some(0.0)),
            ("101%", None),
            ("0.5", None),
            ("x%", None),
        ] {
            assert_eq!(parse(text), want, "{text}");
        }
    }
}
