//! Stored results of the execute surface: where the large ones lie, and by which way clients are told to read them. Says
//! nothing of what is stored.

use std::{path::PathBuf, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::{Config, KeyPath, Secret, secret, units};

/// Stored results of the execute surface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Artifacts {
    /// Where results above 256 KiB are kept: `file:///folder` (which all pods must see), `s3://bucket/prefix`,
    /// `gs://bucket/prefix` or `az://container/prefix`. Without it they are refused as too large.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-format" = "object-store"))]
    pub store: Option<String>,
    /// The address of that store where it is not the cloud's own, such as `https://minio.example.com:9000`. Plain HTTP is
    /// spoken only where it stands here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-format" = "http-url"))]
    pub endpoint: Option<String>,
    /// The region of an S3 bucket. Default: `AWS_REGION` or `AWS_DEFAULT_REGION`, else `us-east-1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The storage account of an Azure container. Default: `AZURE_STORAGE_ACCOUNT_NAME`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// S3's access key id, with `secret_key`; a secret. Without both, the login is the one that the machine has: variables
    /// `AWS_…`, a web identity, the role of a container or an instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "secret::secret_schema")]
    pub access_key: Option<Secret>,
    /// S3's secret access key, an Azure account's key, or a Google service account's key file (JSON); a secret. Without it,
    /// the login is the one that the machine has: `AZURE_…`, `GOOGLE_…`, a workload or managed identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "secret::secret_schema")]
    pub secret_key: Option<Secret>,
    /// Which way replies name first to read a stored result: by the tool, by `resources/read`, or `auto`, by what the client says of itself.
    #[schemars(extend("x-variable" = "PLASM_MCP_ARTIFACT_ACCESS"))]
    pub access: ArtifactAccess,
    /// Taken for the `User-Agent` of every client where `access` is `auto`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-variable" = "PLASM_MCP_CLIENT_USER_AGENT"))]
    pub client_user_agent: Option<String>,
    /// How often one of the pods deletes the objects whose time is over.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema", extend("x-min" = "1m", "x-max" = "24h"))]
    pub sweep: Duration,
}

/// By which way clients are told to read a stored result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ArtifactAccess {
    #[default]
    Auto,
    Tool,
    Resources,
}

/// What `store` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectPlace {
    Folder(PathBuf),
    /// A bucket (Azure: a container), and what the names of our objects in it begin with.
    Bucket {
        cloud: Cloud,
        name: String,
        prefix: String,
    },
}

/// Whose bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cloud {
    S3,
    Google,
    Azure,
}

impl Default for Artifacts {
    fn default() -> Self {
        Self {
            store: None,
            endpoint: None,
            region: None,
            account: None,
            access_key: None,
            secret_key: None,
            access: ArtifactAccess::Auto,
            client_user_agent: None,
            sweep: Duration::from_secs(600),
        }
    }
}

impl Artifacts {
    /// What `store` names, where it is set. The check has seen that it names something.
    pub fn place(&self) -> Option<ObjectPlace> {
        self.store.as_deref().and_then(|text| ObjectPlace::parse(text).ok())
    }
}

impl ObjectPlace {
    /// The error says what was expected.
    pub(super) fn parse(text: &str) -> Result<ObjectPlace, &'static str> {
        const EXPECTED: &str = "file:///folder, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix, without a login \
                                or parameters";
        let url = Url::parse(text).map_err(|_| EXPECTED)?;
        let bare = url.username().is_empty()
            && url.password().is_none()
            && url.port().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        let cloud = match url.scheme() {
            "file" if bare && url.path() != "/" => {
                return url.to_file_path().map(ObjectPlace::Folder).map_err(|()| EXPECTED);
            }
            "s3" => Cloud::S3,
            "gs" => Cloud::Google,
            "az" => Cloud::Azure,
            _ => return Err(EXPECTED),
        };
        match url.host() {
            Some(Host::Domain(name)) if bare && !name.contains('%') => Ok(ObjectPlace::Bucket {
                cloud,
                name: name.to_owned(),
                prefix: url.path().trim_matches('/').to_owned(),
            }),
            _ => Err(EXPECTED),
        }
    }
}

/// What is wrong in what is configured here.
pub(super) fn check(config: &Config, wrong: &mut Vec<(KeyPath, String)>) {
    let artifacts = &config.artifacts;
    let mut say = |key: &str, why: &str| wrong.push((KeyPath::of(&["artifacts", key]), why.to_owned()));
    let cloud = match artifacts.place() {
        Some(ObjectPlace::Bucket { cloud, .. }) => Some(cloud),
        _ => None,
    };
    let given = [
        ("endpoint", artifacts.endpoint.is_some(), &[Cloud::S3, Cloud::Google, Cloud::Azure][..]),
        ("region", artifacts.region.is_some(), &[Cloud::S3]),
        ("account", artifacts.account.is_some(), &[Cloud::Azure]),
        ("access_key", artifacts.access_key.is_some(), &[Cloud::S3]),
        ("secret_key", artifacts.secret_key.is_some(), &[Cloud::S3, Cloud::Google, Cloud::Azure]),
    ];
    for (key, _, of) in given.into_iter().filter(|(_, given, _)| *given) {
        if !cloud.is_some_and(|cloud| of.contains(&cloud)) {
            let schemes: Vec<_> = of.iter().map(|cloud| cloud.scheme()).collect();
            say(key, &format!("belongs to a store at {}", schemes.join(", ")));
        }
    }
    match (cloud, &artifacts.access_key, &artifacts.secret_key) {
        (Some(Cloud::S3), Some(_), None) => say("access_key", "needs secret_key beside it"),
        (Some(Cloud::S3), None, Some(_)) => say("secret_key", "needs access_key beside it"),
        (Some(Cloud::Azure), _, Some(_)) if artifacts.account.is_none() => {
            say("secret_key", "needs account beside it: which account it is the key of");
        }
        _ => {}
    }
    let is_region = |region: &String| {
        !region.is_empty() && region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    if artifacts.region.as_ref().is_some_and(|region| !is_region(region)) {
        say("region", "is not the name of a region, such as eu-central-1");
    }
    if artifacts.client_user_agent.as_deref().is_some_and(|agent| agent.trim().is_empty() || !is_line(agent))
    {
        say("client_user_agent", "is not what a User-Agent can be: one line of text");
    }
}

/// What can be used, and is hardly meant.
pub(super) fn doubt(config: &Config) -> Option<(KeyPath, String)> {
    let shared = config.store.redis_url.is_some();
    let folder = matches!(config.artifacts.place(), Some(ObjectPlace::Folder(_)));
    (shared && folder).then(|| {
        let why = "is a folder, and there may be several pods: it must be one that all of them see";
        (KeyPath::of(&["artifacts", "store"]), why.to_owned())
    })
}

fn is_line(text: &str) -> bool {
    http::HeaderValue::from_str(text).is_ok()
}

impl Cloud {
    /// The scheme of its stores.
    pub fn scheme(self) -> &'static str {
        match self {
            Cloud::S3 => "s3://",
            Cloud::Google => "gs://",
            Cloud::Azure => "az://",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_a_folder_or_a_bucket_and_nothing_that_holds_a_login() {
        let bucket = |cloud, name: &str, prefix: &str| {
            Some(ObjectPlace::Bucket { cloud, name: name.into(), prefix: prefix.into() })
        };
        let table = [
            ("file:///var/lib/results", Some(ObjectPlace::Folder("/var/lib/results".into()))),
            ("file:///with%20space", Some(ObjectPlace::Folder("/with space".into()))),
            ("s3://bucket", bucket(Cloud::S3, "bucket", "")),
            ("s3://my.bucket/a/b/", bucket(Cloud::S3, "my.bucket", "a/b")),
            ("gs://bucket/x", bucket(Cloud::Google, "bucket", "x")),
            ("az://results/x", bucket(Cloud::Azure, "results", "x")),
            ("file:///", None),
            ("file://host/folder", None),
            ("s3://key:secret@bucket", None),
            ("s3://bucket?x=1", None),
            ("s3:///prefix", None),
            ("https://bucket.s3.amazonaws.com", None),
            ("/folder", None),
            ("bucket", None),
        ];
        for (text, want) in table {
            assert_eq!(ObjectPlace::parse(text).ok(), want, "{text}");
        }
    }

    #[test]
    fn what_does_not_go_together_is_named() {
        let table: [(serde_json::Value, &[&str]); 10] = [
            (serde_json::json!({}), &[]),
            (
                serde_json::json!({"store": "s3://b", "access_key": "k", "secret_key": "s", "region": "r"}),
                &[],
            ),
            (serde_json::json!({"store": "az://b", "account": "a", "secret_key": "s"}), &[]),
            (serde_json::json!({"store": "s3://b", "access_key": "k"}), &["access_key"]),
            (serde_json::json!({"store": "s3://b", "secret_key": "k"}), &["secret_key"]),
            (serde_json::json!({"store": "az://b", "secret_key": "k"}), &["secret_key"]),
            (serde_json::json!({"store": "gs://b", "region": "r", "account": "a"}), &["region", "account"]),
            (serde_json::json!({"store": "s3://b", "region": "a b"}), &["region"]),
            (serde_json::json!({"store": "file:///x", "endpoint": "https://e"}), &["endpoint"]),
            (
                serde_json::json!({"secret_key": "k", "client_user_agent": "a\nb"}),
                &["secret_key", "client_user_agent"],
            ),
        ];
        for (artifacts, want) in table {
            let artifacts = serde_json::from_value(artifacts.clone()).unwrap();
            let config = Config { artifacts, ..Config::default() };
            let mut wrong = Vec::new();
            check(&config, &mut wrong);
            let keys: Vec<_> = wrong.iter().map(|(path, _)| path.to_string()).collect();
            let want: Vec<_> = want.iter().map(|key| format!("artifacts.{key}")).collect();
            assert_eq!(keys, want);
        }
    }
}
