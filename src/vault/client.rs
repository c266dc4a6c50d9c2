//! As which client accounts are connected: the configured one, else our metadata document where the server takes one, else
//! one that we register there, once for all pods (RFC 7591). A registration counts at the issuer that made it, nowhere else.

use super::Shared;
use super::held::Sealable;
use super::metadata::{Server, Unknown};
use super::slot::hidden;
use super::spec::Spec;
use super::token::{Client, Method};
use crate::auth::now;
use crate::sealing::Purpose;
use crate::store::{Check, Key, Sure, Write};
use bytes::Bytes;
use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;

/// What a client is called where people see it.
const NAME: &str = "plasm-mcp";
/// A registration that nobody asked for in so long is made anew.
const LIFE: Duration = Duration::from_secs(90 * 24 * 3600);
const SEALED: &str = "v";

/// A registration (RFC 7591 3.2.1).
#[derive(Deserialize)]
struct Registered {
    client_id: String,
    #[serde(default)]
    client_secret: Option<String>,
    #[serde(default)]
    client_secret_expires_at: u64,
    #[serde(default)]
    token_endpoint_auth_method: Option<Method>,
}

/// As it rests.
#[derive(Serialize, Deserialize)]
struct Kept {
    client: Client,
    /// In seconds since the epoch; 0: never.
    until: u64,
}

impl Shared {
    /// What authorisation servers may read of this gateway as their client.
    pub(super) fn document(&self, base: &str) -> Value {
        let mut document = about(base, Method::None);
        document["client_id"] = format!("{base}{}", super::connect::DOCUMENT).into();
        document
    }

    /// The client that accounts at this server are connected by.
    pub(super) async fn client(&self, spec: &Spec, server: &Server, base: &str) -> Result<Client, Unknown> {
        if let Some(configured) = &spec.client {
            return Ok(configured.at(Some(server)));
        }
        let document = spec.client_metadata_url.clone();
        let own = || base.starts_with("https://").then(|| format!("{base}{}", super::connect::DOCUMENT));
        if server.client_id_metadata_document_supported
            && let Some(id) = document.or_else(own)
        {
            return Ok(Client { id, secret: None, method: Method::None, signer: None });
        }
        self.registered(spec, server, base).await
    }

    async fn registered(&self, spec: &Spec, server: &Server, base: &str) -> Result<Client, Unknown> {
        let key = registration(&server.issuer, base);
        let record = self.store.get(key.clone()).await.map_err(|_| Unknown::Away)?;
        let kept = record.as_ref().and_then(|record| {
            let sealed = std::str::from_utf8(record.field(SEALED)?).ok()?;
            let plain = self.keyring.open(Purpose::Vault, server.issuer.as_bytes(), sealed).ok()?;
            serde_json::from_slice::<Kept>(&plain).ok()
        });
        if let Some(kept) = kept.filter(|kept| kept.until == 0 || now() < kept.until) {
            return Ok(kept.client);
        }
        let kept = self.register(spec, server, base).await?;
        let plain = serde_json::to_vec(&kept).expect("a struct of strings has a JSON form");
        let sealed = self.keyring.seal(Purpose::Vault, server.issuer.as_bytes(), &plain);
        let was = record.as_ref().and_then(|record| record.field(SEALED)).cloned();
        let checks = vec![(key.clone(), Check::Field(SEALED.into(), was))];
        let writes = vec![(key.clone(), Write::set(SEALED, sealed)), (key, Write::Live(LIFE))];
        // Where another pod was quicker there are two clients, and both hold.
        self.store.commit(checks, writes, Sure::Master).await.map_err(|_| Unknown::Away)?;
        Ok(kept.client)
    }

    /// Forgets the registration that gave this client: its server does not know it any more.
    pub(super) async fn unregister(&self, issuer: &str, base: &str) {
        if let Err(error) = self.store.take(registration(issuer, base), Sure::Master).await {
            tracing::info!(%error, "a registration that does not hold any more was not forgotten");
        }
    }

    async fn register(&self, spec: &Spec, server: &Server, base: &str) -> Result<Kept, Unknown> {
        let endpoint =
            server.registration_endpoint.as_deref().ok_or(Unknown::Lacks("way to register a client"))?;
        let wanted =
            [Method::Basic, Method::Post, Method::None].into_iter().find(|method| server.takes(*method));
        let wanted = wanted.unwrap_or(Method::None);
        let request = Request::post(endpoint)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json")
            .body(Bytes::from(about(base, wanted).to_string()))
            .map_err(|_| Unknown::Registration)?;
        let answer = self.egress.send(request, spec.named(endpoint)).await.map_err(|why| {
            tracing::info!(upstream = %spec.upstream, %why, "no client was registered for an upstream");
            Unknown::Registration
        })?;
        let read: Option<Registered> =
            answer.status.is_success().then(|| serde_json::from_slice(&answer.body).ok()).flatten();
        let Some(registered) = read.filter(|registered| !registered.client_id.is_empty()) else {
            tracing::info!(upstream = %spec.upstream, status = answer.status.as_u16(), "no client was registered for an upstream");
            return Err(Unknown::Registration);
        };
        let method = registered.token_endpoint_auth_method.unwrap_or(wanted);
        let secret = registered.client_secret.map(Sealable::from).filter(|_| method != Method::None);
        let client = Client { id: registered.client_id, secret, method, signer: None };
        Ok(Kept { client, until: registered.client_secret_expires_at })
    }
}

/// The metadata of this gateway as a client (RFC 7591 2).
fn about(base: &str, method: Method) -> Value {
    // What runs on somebody's own machine is native (OpenID Connect Registration 2).
    let kind = if base.starts_with("https://") { "web" } else { "native" };
    json!({
        "client_name": NAME,
        "client_uri": base,
        "redirect_uris": [format!("{base}{}", super::connect::CALLBACK)],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        "application_type": kind,
    })
}

/// A registration is for one address that answers come to.
fn registration(issuer: &str, base: &str) -> Key {
    Key::new(format!("vault:client:{}", hidden(&format!("{base} {issuer}"))), "")
}
