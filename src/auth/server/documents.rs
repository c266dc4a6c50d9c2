//! Client metadata documents: a client's id is the address of what it says of itself. They are read by the guarded client, kept
//! for all pods once a person has allowed their client, and used on while they cannot be read. Anybody can name an address:
//! until then, nothing of what stands there is written to the store.

use super::clients::{Client, LONGEST_ID, UnknownClient};
use super::redirects::{Policy, Vendor};
use crate::auth::{digest_text, html, now};
use crate::egress::{Egress, Named};
use crate::sealing::{Keyring, Purpose};
use crate::store::{Key, Store, Sure, Write};
use http::header;
use moka::sync::Cache;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{AcquireError, Semaphore};
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
/// Documents that are read at once in a pod, and of one host.
const AT_ONCE: usize = 32;
const OF_ONE_HOST: usize = 2;
/// How long one waits for its turn.
const TURN: Duration = Duration::from_secs(1);
/// How long a person who allowed a client waits for its document to be kept.
const KEEPING: Duration = Duration::from_secs(2);
/// Documents that a pod keeps.
const KEPT: u64 = 1_000;

/// The documents.
pub struct Documents {
    store: Arc<dyn Store>,
    /// Seals what is in the store, for it says where codes may go.
    keyring: Arc<Keyring>,
    egress: Egress,
    policy: Policy,
    near: Cache<String, Kept>,
    failed: Cache<String, UnknownClient>,
    places: Semaphore,
    /// Those of each host, so that one that does not answer keeps no other waiting.
    hosts: Cache<String, Arc<Semaphore>>,
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
    /// `policy`: which addresses of a document are kept at all.
    pub fn new(store: Arc<dyn Store>, keyring: Arc<Keyring>, egress: Egress, policy: Policy) -> Documents {
        let near = Cache::builder().max_capacity(KEPT).time_to_live(Duration::from_secs(300)).build();
        let failed = Cache::builder().max_capacity(KEPT).time_to_live(QUIET).build();
        let hosts = Cache::builder().max_capacity(KEPT).time_to_idle(Duration::from_secs(60)).build();
        Documents { store, keyring, egress, policy, near, failed, places: Semaphore::new(AT_ONCE), hosts }
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
                    // What is kept for all pods stays as new as what is read.
                    if stored.is_some() {
                        self.put(id, &kept).await;
                    }
                    return Ok(named(kept.client, id));
                }
                Err(error) => error,
            },
        };
        match (error, stored.or_else(|| self.near.get(id)), vendor) {
            // What it said last is better than to lock its users out; but what is wrong in it now counts.
            (UnknownClient::Unread, Some(kept), _) => Ok(named(kept.client, id)),
            (UnknownClient::Unread, None, Some(vendor)) => Ok(known(vendor, id)),
            _ => Err(error),
        }
    }

    /// Keeps a client's document for all pods: a person has allowed it.
    pub async fn keep(&self, id: &str) {
        let keeping = async {
            if let Some(kept) = self.near.get(id).filter(|kept| kept.until > now()) {
                self.put(id, &kept).await;
            } else if self.stored(id).await.is_none()
                && self.failed.get(id).is_none()
                && let Ok(kept) = self.read(id).await
            {
                self.put(id, &kept).await;
            }
        };
        // Where it fails, pods read it for themselves.
        let _ = tokio::time::timeout(KEEPING, keeping).await;
    }

    /// Reads a document when it is its turn, and remembers what came of it in this pod.
    async fn read(&self, id: &str) -> Result<Kept, UnknownClient> {
        let url = Url::parse(id).map_err(|_| UnknownClient::Refused)?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let of_host = self.hosts.get_with(host, || Arc::new(Semaphore::new(OF_ONE_HOST)));
        // The host's place first: who waits for it takes none of the pod's.
        let turn = async { Ok::<_, AcquireError>((of_host.acquire().await?, self.places.acquire().await?)) };
        let Ok(Ok(_turn)) = tokio::time::timeout(TURN, turn).await else {
            // Not the document's fault, so nothing is remembered.
            return Err(UnknownClient::Unread);
        };
        // Somebody may have read it meanwhile.
        if let Some(kept) = self.near.get(id).filter(|kept| kept.until > now()) {
            return Ok(kept);
        }
        let read = self.fetch(id).await;
        match &read {
            Ok(kept) => self.near.insert(id.to_owned(), kept.clone()),
            Err(error) => self.failed.insert(id.to_owned(), *error),
        }
        read
    }

    async fn fetch(&self, id: &str) -> Result<Kept, UnknownClient> {
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
        let client = client_of(id, &answer.body, &self.policy).ok_or(UnknownClient::Document)?;
        let control = answer.headers.get(header::CACHE_CONTROL).and_then(|value| value.to_str().ok());
        Ok(Kept { client, until: now() + fresh(control.unwrap_or_default()) })
    }

    async fn stored(&self, id: &str) -> Option<Kept> {
        let record = self.store.get(key(id)).await.ok()??;
        let sealed = std::str::from_utf8(record.field("d")?).ok()?;
        let plain = self.keyring.open(Purpose::Grant, aad(id).as_bytes(), sealed).ok()?;
        serde_json::from_slice(&plain).ok()
    }

    async fn put(&self, id: &str, kept: &Kept) {
        let plain = serde_json::to_vec(kept).expect("a document is a map of plain values");
        let sealed = self.keyring.seal(Purpose::Grant, aad(id).as_bytes(), &plain);
        let writes = vec![(key(id), Write::set("d", sealed)), (key(id), Write::Live(STALE))];
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

/// The client that a document describes, with those of its addresses that may be registered here; `None`: it is no valid one.
fn client_of(id: &str, text: &[u8], policy: &Policy) -> Option<Client> {
    let document: Document = (text.len() <= LARGEST).then(|| serde_json::from_slice(text).ok())??;
    let method = document.token_endpoint_auth_method.as_deref().unwrap_or("none");
    let mut redirects = document.redirect_uris;
    let valid = document.client_id == id
        && document.client_secret.is_none()
        && method == "none"
        && redirects.len() <= MOST;
    redirects.retain(|address| policy.admit(address).is_ok());
    let once =
        document.grant_types.is_some_and(|grants| !grants.iter().any(|grant| grant == "refresh_token"));
    (valid && !redirects.is_empty()).then(|| Client {
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

/// What a sealed document is bound to. Nothing else that is sealed for this purpose has a blank in it.
fn aad(id: &str) -> String {
    format!("document {id}")
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
            client_of(id, document.to_string().as_bytes(), &Policy::default()).is_some()
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
        assert!(client_of(id, b"<html>", &Policy::default()).is_none());
    }

    #[test]
    fn of_a_documents_addresses_only_those_that_are_admitted_are_kept() {
        let id = "https://app.example/oauth/client.json";
        let long = format!("http://localhost/{}", "x".repeat(1000));
        let kept = |redirects: &[&str], open| {
            let document = json!({"client_id": id, "client_name": "App", "redirect_uris": redirects});
            let policy = Policy { vendors: vec![], open };
            client_of(id, document.to_string().as_bytes(), &policy).map(|client| client.redirects)
        };
        let all = ["http://localhost/cb", "https://app.example/cb", "javascript:alert(1)", &long];
        assert_eq!(kept(&all, false).unwrap(), ["http://localhost/cb"]);
        assert_eq!(kept(&all, true).unwrap(), ["http://localhost/cb", "https://app.example/cb"]);
        assert_eq!(kept(&[&long, "https://app.example/cb"], false), None);
    }

    #[tokio::test]
    async fn a_document_in_the_store_that_was_not_sealed_here_for_its_address_is_none() {
        let store: Arc<dyn Store> = Arc::new(crate::store::Memory::new(1 << 20));
        let egress = || Egress::new(crate::egress::Reach::default(), rustls::RootCertStore::empty());
        let keyring = Arc::new(Keyring::random());
        let documents = |keyring| Documents::new(store.clone(), keyring, egress(), Policy::default());
        let (ours, others) = (documents(keyring), documents(Arc::new(Keyring::random())));
        let (id, other) = ("https://app.example/c.json", "https://app.example/d.json");
        let document =
            json!({"client_id": id, "client_name": "App", "redirect_uris": ["http://localhost/cb"]});
        let client = client_of(id, document.to_string().as_bytes(), &Policy::default()).unwrap();
        let kept = Kept { client, until: now() + 60 };
        ours.put(id, &kept).await;
        assert!(ours.stored(id).await.is_some() && others.stored(id).await.is_none());
        let sealed = store.get(key(id)).await.unwrap().unwrap().field("d").unwrap().to_vec();
        let plain = serde_json::to_vec(&kept).unwrap();
        for forged in [sealed, plain] {
            store.commit(vec![], vec![(key(other), Write::set("d", forged))], Sure::Master).await.unwrap();
            assert!(ours.stored(other).await.is_none());
        }
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
