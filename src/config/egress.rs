//! What the gateway fetches for others: documents of issuers and of upstreams' authorisation servers, metadata of clients.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// URLs that come from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Egress {
    /// Networks that may be reached though they are not public, such as `10.1.0.0/16` where an authorisation server stands
    /// inside. Plain HTTP is spoken only where there are such.
    #[schemars(schema_with = "networks_schema")]
    pub inside: Vec<String>,
}

pub(super) fn networks_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": { "type": "string", "x-format": "network" } })
}
