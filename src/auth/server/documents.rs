//! Client metadata documents: a client's id is the address of what it says of itself. They are read by the guarded client,
//! kept for all pods, and used on while they cannot be read.

use super::clients::{Client, LONGEST_ID, UnknownClient};
use super::redirects::Vendor;
use crate::auth::{digest_text, html, now};
use crate::egress::{Egress, Named};
use crate::store::{Key, Store, Sure, Write};
use http::header;
use moka::sync::Cache;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use url::Url;

/// Largest document that is used, in bytes.
const LARGEST: usize = 64 << 10;
/// Most addresses of one client.
const MOST: usize = 32;
/// How long a document is used before it is read again, where its own headers do not say; and what of theirs is followed.
const FRESH: u64 = 3600;
const SHORTEST: u64 = 60;
const LONGEST: u64 = 86_400;
/// How long one that cannot be read again is used on.
const STALE: Duration = Duration::from_secs(30 * 86_400);
/// How long a pod does not ask again for what it did not get.
const QUIET: Duration = Duration::from_secs(10);
/// Documents that are read at once in a pod: anybody can name an address.
const AT_ONCE: usize = 8;
/// Documents that a pod keeps.
const KEPT: u64 = 1_000;

/// The documents.
pub struct Documents {
    store: Arc<dyn Store>,
    egress: Egress,
    near: Cache<String, Kept>,
    failed: Cache<String, UnknownClient>,
    places: Semaphore,
}

/// A document that was read.
#[derive(Clone, Serialize, Deserialize)]
struct Kept {
    client: Client,
    /// When it is to be read again, in seconds since the epoch.
    until: u64,
}

/// What of a document is looked at.
#[derive(Deserialize)]
struct Document {
    client_id: String,
    client_name: String,
    redirect_uris: Vec<String>,
    token_endpoint_auth_method: Option<String>,
    grant_types: Option<Vec<String>>,
    client_secret: Option<serde::de::IgnoredAny>,
}

impl Documents {
    pub fn new(store: Arc<dyn Store>, egress: Egress) -> Documents {
        let near = Cache::builder().max_capacity(KEPT).time_to_live(Duration::from_secs(300)).build();
        let failed = Cache::builder().max_capacity(KEPT).time_to_live(QUIET).build();
        Documents { store, egress, near, failed, places: Semaphore::new(AT_ONCE) }
    }

    /// The client whose document is at an address. `vendor`: whose it is known to be, so that it can log in although its
    /// document refuses to be read.
    pub async fn find(&self, id: &str, vendor: Option<&Vendor>) -> Result<Client, UnknownClient> {
        if !is_document(id) {
            return Err(UnknownClient::Refused);
        }
        if let Some(kept) = self.near.get(id).filter(|kept| kept.until > now()) {
            return Ok(named(kept.client, id));
        }
        // Of what the store has, another pod may have read it. With the store away, it is read.
        let stored = self.stored(id).await;
        if let Some(kept) = stored.as_ref().filter(|kept| kept.until > now()) {
            self.near.insert(id.to_owned(), kept.clone());
            return Ok(named(kept.client.clone(), id));
        }
        let error = match self.failed.get(id) {
            Some(error) => error,
            None => match self.read(id).await {
                Ok(kept) => {
                    self.near.insert(id.to_owned(), kept.clone());
                    self.put(id, &kept).await;
                    return Ok(named(kept.client, id));
                }
                Err(error) => {
                    self.failed.insert(id.to_owned(), error);
                    error
                }
            },
        };
        match (error, stored.or_else(|| self.near.get(id)), vendor) {
            // What it said last is better than to lock its users out; but what is wrong in it now counts.
            (UnknownClient::Unread, Some(kept), _) => Ok(named(kept.client, id)),
            (UnknownClient::Unread, None, Some(vendor)) => Ok(known(vendor, id)),
            _ => Err(error),
        }
    }

    async fn read(&self, id: &str) -> Result<Kept, UnknownClient> {
        let Ok(_place) = self.places.try_acquire() else { return Err(UnknownClient::Unread) };
        let answer = self.egress.get(id, Named::ByOthers).await.map_err(|error| {
            tracing::info!(%error, "a client metadata document cannot be read");
            match error {
                crate::egress::FetchError::Refused | crate::egress::FetchError::Url => UnknownClient::Refused,
                crate::egress::FetchError::TooLarge => UnknownClient::Document,
                _ => UnknownClient::Unread,
            }
        })?;
        if !answer.status.is_success() {
            tracing::info!(status = answer.status.as_u16(), "a client metadata document cannot be read");
            return Err(match answer.status.as_u16() {
                404 | 410 => UnknownClient::Document,
                _ => UnknownClient::Unread,
            });
        }
        let client = client_of(id, &answer.body).ok_or(UnknownClient::Document)?;
        let control = answer.headers.get(header::CACHE_CONTROL).and_then(|value| value.to_str().ok());
        Ok(Kept { client, until: now() + fresh(control.unwrap_or_default()) })
    }

    async fn stored(&self, id: &str) -> Option<Kept> {
        let record = self.store.get(key(id)).await.ok()??;
        serde_json::from_slice(record.field("d")?).ok()
    }

    async fn put(&self, id: &str, kept: &Kept) {
        let text = serde_json::to_vec(kept).expect("a document is a map of plain values");
        let writes = vec![(key(id), Write::set("d", text)), (key(id), Write::Live(STALE))];
        // Where it fails, other pods read it for themselves.
        let _ = self.store.commit(vec![], writes, Sure::Master).await;
    }
}

fn named(client: Client, id: &str) -> Client {
    Client { id: id.to_owned(), ..client }
}

/// What the configuration knows of a vendor's client.
fn known(vendor: &Vendor, id: &str) -> Client {
    Client {
        id: id.to_owned(),
        name: vendor.name.clone(),
        redirects: vendor.redirects.iter().filter(|address| !address.contains('*')).cloned().collect(),
        secret: None,
        once: false,
    }
}

/// Whether an id may be the address of a document: https with a path, and spelled as it is meant
/// (draft-ietf-oauth-client-id-metadata-document 3).
fn is_document(id: &str) -> bool {
    let Ok(url) = Url::parse(id) else { return false };
    let plain = id.len() <= LONGEST_ID && id.starts_with("https://") && url.path() != "/";
    plain
        && url.as_str() == id
        && url.username().is_empty()
        && url.password().is_none()
        && url.fragment().is_none()
}

/// The client that a document describes; `None`: it is no valid one.
fn client_of(id: &str, text: &[u8]) -> Option<Client> {
    let document: Document = (text.len() <= LARGEST).then(|| serde_json::from_slice(text).ok())??;
    let method = document.token_endpoint_auth_method.as_deref().unwrap_or("none");
    let redirects = document.redirect_uris;
    let valid = document.client_id == id
        && document.client_secret.is_none()
        && method == "none"
        && (1..=MOST).contains(&redirects.len());
    let once =
        document.grant_types.is_some_and(|grants| !grants.iter().any(|grant| grant == "refresh_token"));
    valid.then(|| Client {
        id: id.to_owned(),
        name: html::plain(&document.client_name),
        redirects,
        secret: None,
        once,
    })
}

/// For how many seconds a document may be used, by its `Cache-Control`.
fn fresh(control: &str) -> u64 {
    let directives = control.split(',').map(str::trim);
    let said = directives.filter_map(|directive| match directive.to_ascii_lowercase().as_str() {
        "no-store" | "no-cache" => Some(0),
        directive => directive.strip_prefix("max-age=")?.parse().ok(),
    });
    said.min().unwrap_or(FRESH).clamp(SHORTEST, LONGEST)
}

fn key(id: &str) -> Key {
    Key::new(format!("oauth:cimd:{}", digest_text(id.as_bytes())), "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_document_is_its_own_address_and_keeps_no_secret() {
        let id = "https://app.example/oauth/client.json";
        let good = json!({"client_id": id, "client_name": "App", "redirect_uris": ["http://localhost/cb"]});
        let with = |more: Value| {
            let mut document = good.clone();
            document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            client_of(id, document.to_string().as_bytes()).is_some()
        };
        assert!(with(json!({})) && with(json!({"token_endpoint_auth_method": "none", "logo_uri": "x"})));
        for bad in [
            json!({"client_id": "https://app.example/oauth/client.json/"}),
            json!({"client_id": "https://evil.example/client.json"}),
            json!({"client_secret": "x"}),
            json!({"token_endpoint_auth_method": "client_secret_basic"}),
            json!({"redirect_uris": []}),
            json!({"redirect_uris": "http://localhost/cb"}),
            json!({"client_name": 7}),
        ] {
            assert!(!with(bad.clone()), "{bad}");
        }
        assert!(client_of(id, b"<html>").is_none());
    }

    #[test]
    fn an_address_of_a_document_is_https_with_a_path_as_it_is_meant() {
        for good in ["https://a.example/c.json", "https://a.example/x?y=z"] {
            assert!(is_document(good), "{good}");
        }
        for bad in [
            "http://a.example/c.json",
            "https://a.example",
            "https://a.example/",
            "https://u@a.example/c",
            "https://a.example/c#x",
            "https://a.example/x/../c",
            "https://A.example/c",
            "HTTPS://a.example/c",
            "https://a.example:443/c",
            "file:///etc/passwd",
            "javascript:x",
        ] {
            assert!(!is_document(bad), "{bad}");
        }
    }

    #[test]
    fn a_vendors_client_is_known_by_its_addresses_where_its_document_is_not() {
        let vendor = Vendor {
            name: "claude".into(),
            redirects: vec!["https://claude.ai/cb".into(), "https://claude.ai/cb/*".into()],
            documents: vec!["https://claude.ai/client".into()],
        };
        let client = known(&vendor, "https://claude.ai/client");
        assert_eq!(client.redirects, ["https://claude.ai/cb"]);
        assert_eq!((&*client.title(), client.is_document()), ("claude", true));
    }

    #[test]
    fn a_document_is_kept_as_long_as_it_says_within_bounds() {
        let table = [
            ("", 3600),
            ("max-age=600", 600),
            ("public, MAX-AGE=5", 60),
            ("no-store", 60),
            ("max-age=9999999", 86_400),
            ("max-age=x", 3600),
        ];
        for (control, seconds) in table {
            assert_eq!(fresh(control), seconds, "{control}");
        }
    }
}
