//! Two tenants, three pods: what is one principal's is unknown to every other one, by every verb and method, on every pod.
//! The strangers are the same subject in another tenant, and another subject of the same tenant.

mod policy;
mod sessions;
mod values;

use crate::gateway::Gateway;
use crate::gateway::exchange::{self, Answer};
use crate::gateway::legacy::Legacy;
use crate::gateway::modern::Modern;
use crate::harness::Fixture;
use crate::store::redis::server::Server;
use plasm_mcp::auth::api_key;
use serde_json::{Value, json};
use tempfile::TempDir;

const V: &str = "2025-11-25";
const SEALING: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

/// Whoever calls: the `Authorization` that they show.
#[derive(Clone)]
struct Who(String);

/// Three pods before two upstreams, and who calls.
struct Three {
    pods: [Gateway; 3],
    /// Of the legacy era, with sessions, and of both.
    old: Fixture,
    new: Fixture,
    /// ann of acme, whose everything is.
    ann: Who,
    /// ann of globex, and eve of acme.
    strangers: [Who; 2],
    _redis: Server,
    _folder: TempDir,
}

impl Three {
    fn start(more: Value) -> Three {
        let redis = Server::start(&[]);
        let old = Fixture::listening("--http", &["--era", "legacy"]);
        let new = Fixture::listening("--http", &["--era", "modern"]);
        let folder = tempfile::tempdir().expect("a folder");
        let sealing = folder.path().join("key");
        std::fs::write(&sealing, SEALING).expect("the folder takes a key");
        let mut keys = serde_json::Map::new();
        let who = [("ann", "acme", "ann"), ("namesake", "globex", "ann"), ("eve", "acme", "eve")];
        let [ann, namesake, eve] = who.map(|(id, tenant, subject)| {
            let key = api_key::mint(id);
            let (_, hash) = api_key::hash(&key).expect("it is a key");
            let scopes = if id == "ann" { vec!["repo:write"] } else { vec!["repo:read"] };
            keys.insert(
                id.to_owned(),
                json!({"hash": hash, "tenant": tenant, "subject": subject, "scopes": scopes}),
            );
            Who(format!("Bearer {key}"))
        });
        let mut config = json!({
            "store": { "redis_url": redis.url() },
            "sealing": { "keys": [{ "file": sealing }] },
            "auth": { "api_keys": keys },
            "limits": { "page_items": 2 },
            "upstreams": { "old": { "url": old.url }, "new": { "url": new.url } },
            "profiles": { "other": {} },
        });
        for (key, value) in more.as_object().expect("an object") {
            config[key] = value.clone();
        }
        let pods = [0, 1, 2].map(|_| Gateway::start(config.clone()));
        Three { pods, old, new, ann, strangers: [namesake, eve], _redis: redis, _folder: folder }
    }

    /// A session of this one, begun on a pod.
    async fn begin(&self, pod: usize, who: &Who, capabilities: Value) -> Legacy {
        let address = self.pods[pod].address;
        Legacy::begin_as(address, "/mcp", V, capabilities, Some(who.0.clone())).await
    }

    /// How many requests the upstreams saw.
    async fn seen(&self) -> usize {
        self.old.seen().await.len() + self.new.seen().await.len()
    }
}

/// A client on a pod that names a session, whosever it is.
fn naming(pod: &Gateway, path: &str, who: &Who, session: Option<&str>) -> Legacy {
    let mut client = Legacy::without_session(pod.address, path, Some(V));
    client.session = session.map(str::to_owned);
    client.authorization = Some(who.0.clone());
    client
}

/// A modern request at a path.
async fn modern(pod: &Gateway, path: &str, who: &Who, method: &str, params: Value) -> Answer {
    let client = Modern::new(pod.address, path, json!({"elicitation": {}}));
    client.send_with("1", method, &params.to_string(), &[("authorization", &who.0)]).await
}

/// What a modern request is answered with: the status, and the message.
async fn asked(pod: &Gateway, who: &Who, method: &str, params: Value) -> (u16, Value) {
    let mut answer = modern(pod, "/mcp", who, method, params).await;
    (answer.status, answer.answer().await)
}

/// Status and whole body.
async fn whole(mut answer: Answer) -> (u16, String) {
    let body = answer.bytes().await;
    (answer.status, String::from_utf8_lossy(&body).into_owned())
}

/// Any request of this one.
async fn bare(
    pod: &Gateway,
    verb: &str,
    path: &str,
    who: &Who,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut all = vec![("authorization", &*who.0), ("content-type", "application/json")];
    all.push((
        "accept",
        if verb == "GET" { "text/event-stream" } else { "application/json, text/event-stream" },
    ));
    all.extend(headers);
    exchange::request(pod.address, verb, path, &all, body).await
}
