//! Catalogs of the execute surface: where their files are, what their sources may reach and log in with. Says nothing of what
//! stands in a catalog.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Config, Credential, CredentialKind, KeyPath, Ordered, Secret, Upstream, credentials, egress, hosts_schema,
};

/// Catalogs of the execute surface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Catalogs {
    /// Folders of catalogs, one YAML file each; those below them are not read.
    pub folders: Vec<PathBuf>,
    /// Files of catalogs, besides.
    pub files: Vec<PathBuf>,
    /// Whether catalogs are drafted of the tools of upstreams for which there is none, in profiles that run programs.
    pub drafts: bool,
    /// Hosts that their sources may reach. Empty: those that they name.
    #[schemars(schema_with = "hosts_schema")]
    pub hosts: Vec<String>,
    /// Networks that their sources may reach though they are not public, such as `10.1.0.0/16`. Plain HTTP is spoken only where
    /// there are such.
    #[schemars(schema_with = "egress::networks_schema")]
    pub inside: Vec<String>,
    /// Secrets by the names that catalogs give them: text, `{env: NAME}` or `{file: PATH}`.
    #[schemars(extend("x-key" = "secret-name"))]
    pub secrets: Ordered<Secret>,
    /// Logins of callers' own (`oauth2`), by the names that catalogs give them.
    #[schemars(extend("x-key" = "upstream-id"))]
    pub connections: Ordered<Connection>,
    /// What is otherwise here than in a catalog's file, by its id.
    #[schemars(extend("x-key" = "catalog-id"))]
    pub settings: Ordered<CatalogHere>,
}

impl Default for Catalogs {
    fn default() -> Self {
        Self {
            folders: Vec::new(),
            files: Vec::new(),
            drafts: true,
            hosts: Vec::new(),
            inside: Vec::new(),
            secrets: Ordered::default(),
            connections: Ordered::default(),
            settings: Ordered::default(),
        }
    }
}

/// A login that each caller connects an account of theirs for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Connection {
    /// The address of the API that the login is for.
    #[schemars(extend("x-format" = "http-url"))]
    pub url: String,
    /// How accounts are connected; its kind is `oauth`.
    pub auth: Credential,
}

/// One catalog as it is here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CatalogHere {
    /// `false` keeps the file but does not serve the catalog.
    pub enabled: bool,
    /// The address of its source, in place of its own `base_url` or `url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-format" = "http-url"))]
    pub url: Option<String>,
    /// Most requests to its source at once, in place of its own number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 256))]
    pub concurrency: Option<u32>,
}

impl Default for CatalogHere {
    fn default() -> Self {
        Self { enabled: true, url: None, concurrency: None }
    }
}

impl Catalogs {
    pub fn is_on(&self) -> bool {
        !self.folders.is_empty() || !self.files.is_empty()
    }
}

/// What is wrong in what is configured here.
pub(super) fn check(config: &Config, wrong: &mut Vec<(KeyPath, String)>) {
    for (id, connection) in config.catalogs.connections.iter() {
        let path = KeyPath::of(&["catalogs", "connections", id]);
        if connection.url.is_empty() {
            wrong.push((
                path.then("url"),
                "is missing: accounts are connected for that address alone".to_owned(),
            ));
        }
        if connection.auth.kind != CredentialKind::Oauth {
            let why = "is oauth here: catalogs name other logins by their secrets";
            wrong.push((path.then("auth").then("kind"), why.to_owned()));
        }
        if config.upstreams.get(id).is_some() {
            let why = "is the id of an upstream as well, whose accounts are others";
            wrong.push((path.clone(), why.to_owned()));
        }
        let as_upstream = Upstream {
            url: Some(connection.url.clone()),
            auth: connection.auth.clone(),
            ..Upstream::default()
        };
        credentials::check(&as_upstream, &path, wrong);
    }
}
