//! Connections that the gateway opens: whom it trusts, who it is, which proxy it takes. Says nothing of how.

use std::{path::PathBuf, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Secret, secret, units};

/// Connections to upstreams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Outbound {
    /// TLS to all upstreams, besides the authorities that browsers trust.
    pub tls: Tls,
    /// The proxy before all upstreams, the object store and URLs that come from outside, in place of `HTTPS_PROXY`, `HTTP_PROXY` and `ALL_PROXY`:
    /// `http://user:password@proxy:3128`, or `none`; a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "secret::secret_schema")]
    pub proxy: Option<Secret>,
    /// A connection takes no further request at about this age, so that a name's new addresses are seen.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema", extend("x-min" = "1s", "x-max" = "24h"))]
    pub max_age: Duration,
}

impl Default for Outbound {
    fn default() -> Self {
        Self { tls: Tls::default(), proxy: None, max_age: Duration::from_secs(300) }
    }
}

/// Files in PEM form, read at the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// A file with certificates of authorities that are trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// A file with the certificate that the gateway shows (mutual TLS), then its chain; `key` belongs to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// A file with the private key of `cert`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
}
