//! Clients: those that registered, whose id is their sealed registration, so that there is nothing to keep or to lose; and
//! those whose id is the address of a document. And how they prove at the token endpoint who they are.

use super::answers::Refused;
use super::documents::Documents;
use super::redirects::{Policy, host};
use crate::auth::digest_text;
use crate::auth::form::Form;
use crate::auth::revoked::{Revocable, Revoked};
use crate::sealing::{Keyring, Purpose};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use http::{HeaderMap, header};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Longest id, in bytes: a sealed registration of several addresses.
pub const LONGEST_ID: usize = 8 << 10;

/// A client, as it describes itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Client {
    /// Under which it is known; empty in a sealed registration, which is the id itself.
    #[serde(skip)]
    pub id: String,
    /// It chose it itself.
    #[serde(rename = "n")]
    pub name: String,
    /// Exactly as registered.
    #[serde(rename = "r")]
    pub redirects: Vec<String>,
    /// The digest of its secret, where it keeps one.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Whether it said that it does not renew its tokens.
    #[serde(rename = "o", default, skip_serializing_if = "std::ops::Not::not")]
    pub once: bool,
}

impl Client {
    /// What it is called where it gave no name: its host.
    pub fn title(&self) -> String {
        let name = crate::auth::html::plain(&self.name);
        match name.is_empty() {
            true => self.redirects.first().map(|address| host(address)).unwrap_or_default(),
            false => name,
        }
    }

    /// Whether its id is the address of its document.
    pub fn is_document(&self) -> bool {
        is_address(&self.id)
    }
}

/// Why there is no client of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnknownClient {
    #[error("this client is not known here: it must register anew")]
    Unknown,
    #[error("this client was revoked")]
    Revoked,
    #[error("the client's metadata document cannot be read at the moment")]
    Unread,
    #[error("the client's metadata document is not valid")]
    Document,
    #[error("client metadata documents of this address are not read here")]
    Refused,
}

/// All clients.
pub struct Clients {
    keyring: Arc<Keyring>,
    revoked: Revoked,
    documents: Option<Documents>,
    policy: Policy,
}

impl Clients {
    pub fn new(
        keyring: Arc<Keyring>,
        revoked: Revoked,
        documents: Option<Documents>,
        policy: Policy,
    ) -> Clients {
        Clients { keyring, revoked, documents, policy }
    }

    pub fn reads_documents(&self) -> bool {
        self.documents.is_some()
    }

    /// The id of a registration.
    pub fn register(&self, client: &Client) -> String {
        let plain = serde_json::to_vec(client).expect("a registration is a map of plain values");
        self.keyring.seal(Purpose::ClientId, b"", &plain)
    }

    /// The client of an id.
    pub async fn find(&self, id: &str) -> Result<Client, UnknownClient> {
        if self.revoked.has(Revocable::Client(id)) {
            return Err(UnknownClient::Revoked);
        }
        match is_address(id) {
            false => self.open(id).ok_or(UnknownClient::Unknown),
            true => {
                let documents = self.documents.as_ref().ok_or(UnknownClient::Refused)?;
                documents.find(id, self.policy.vendor_of(id)).await
            }
        }
    }

    /// A person has allowed this client: what its document says is kept for all pods.
    pub async fn keep(&self, id: &str) {
        if let Some(documents) = self.documents.as_ref().filter(|_| is_address(id)) {
            documents.keep(id).await;
        }
    }

    /// Who sends a request to the token endpoint: the client's id, proved as it registered (RFC 6749 2.3.1).
    pub fn prove(&self, headers: &HeaderMap, form: &Form) -> Result<String, Refused> {
        let unknown = |why: &str| Refused::new("invalid_client", why);
        let (id, secret) = match basic(headers) {
            Ok(Some((id, secret))) => {
                if form.get("client_secret").is_some()
                    || form.get("client_id").is_some_and(|other| other != id)
                {
                    let why = "the client says twice who it is";
                    return Err(Refused::new("invalid_request", why));
                }
                (id, Some(secret).filter(|secret| !secret.is_empty()))
            }
            Ok(None) => {
                let id = form.get("client_id").ok_or_else(|| unknown("the client says not who it is"))?;
                (id.to_owned(), form.get("client_secret").map(str::to_owned))
            }
            Err(Malformed) => return Err(unknown("the Authorization header is no Basic one")),
        };
        if self.revoked.has(Revocable::Client(&id)) {
            return Err(unknown(&UnknownClient::Revoked.to_string()));
        }
        if is_address(&id) {
            // Its document need not be read: it has no secret, and what it was granted names it.
            return match self.documents.is_some() {
                true => Ok(id),
                false => Err(unknown(&UnknownClient::Refused.to_string())),
            };
        }
        let client = self.open(&id).ok_or_else(|| unknown(&UnknownClient::Unknown.to_string()))?;
        match (&client.secret, secret) {
            (None, _) => Ok(id),
            (Some(digest), Some(secret)) if is_of(digest, &secret) => Ok(id),
            (Some(_), Some(_)) => Err(unknown("this is not the client's secret")),
            (Some(_), None) => Err(unknown("this client has a secret, and did not show it")),
        }
    }

    fn open(&self, id: &str) -> Option<Client> {
        let sealed = (id.len() <= LONGEST_ID).then_some(id)?;
        let plain = self.keyring.open(Purpose::ClientId, b"", sealed).ok()?;
        let client: Client = serde_json::from_slice(&plain).ok()?;
        Some(Client { id: id.to_owned(), ..client })
    }
}

/// Whether an id is the address of a document. What is sealed has no colon.
fn is_address(id: &str) -> bool {
    id.contains(':')
}

fn is_of(digest: &str, secret: &str) -> bool {
    verify_slices_are_equal(digest.as_bytes(), digest_text(secret.as_bytes()).as_bytes()).is_ok()
}

struct Malformed;

/// Id and secret of a Basic header, each form-encoded (RFC 6749 2.3.1). Not all clients encode; what is not encoded reads
/// the same, for ids of ours need none.
fn basic(headers: &HeaderMap) -> Result<Option<(String, String)>, Malformed> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().map_err(|_| Malformed)?;
    let encoded = match text.split_once(' ') {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("basic") && values.next().is_none() => {
            rest.trim()
        }
        _ => return Err(Malformed),
    };
    let plain =
        STANDARD.decode(encoded).or_else(|_| STANDARD_NO_PAD.decode(encoded)).map_err(|_| Malformed)?;
    let plain = String::from_utf8(plain).map_err(|_| Malformed)?;
    let (id, secret) = plain.split_once(':').ok_or(Malformed)?;
    let decoded = |text: &str| {
        let pair = format!("x={text}");
        url::form_urlencoded::parse(pair.as_bytes()).next().map(|(_, value)| value.into_owned())
    };
    Ok(decoded(id).zip(decoded(secret)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Epoch;
    use crate::store::Memory;
    use http::HeaderValue;

    fn clients() -> Clients {
        let store: Arc<dyn crate::store::Store> = Arc::new(Memory::new(1 << 20));
        Clients::new(
            Arc::new(Keyring::random()),
            Revoked::new(store, Epoch::default()),
            None,
            Policy::default(),
        )
    }

    fn client(secret: Option<&str>) -> Client {
        Client {
            id: String::new(),
            name: "x".into(),
            redirects: vec!["http://localhost/cb".into()],
            secret: secret.map(|secret| digest_text(secret.as_bytes())),
            once: false,
        }
    }

    fn with_basic(id: &str, secret: &str) -> HeaderMap {
        let value = format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")));
        HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_str(&value).unwrap())])
    }

    fn form(fields: &[(&str, &str)]) -> Form {
        let text = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        Form::read(text.as_bytes()).unwrap()
    }

    #[tokio::test]
    async fn b129_each_way_to_prove_a_client_works_as_it_registered() {
        let clients = clients();
        let (public, secret) = (clients.register(&client(None)), clients.register(&client(Some("s%+:x"))));
        let none = HeaderMap::new();
        assert_eq!(clients.prove(&none, &form(&[("client_id", &public)])).unwrap(), public);
        assert_eq!(clients.prove(&with_basic(&public, ""), &form(&[])).unwrap(), public);
        let encoded: String = url::form_urlencoded::byte_serialize(b"s%+:x").collect();
        assert_eq!(clients.prove(&with_basic(&secret, &encoded), &form(&[])).unwrap(), secret);
        let post = [("client_id", &*secret), ("client_secret", "s%+:x")];
        assert_eq!(clients.prove(&none, &form(&post)).unwrap(), secret);
        let refused = [
            (none.clone(), form(&[]), "invalid_client"),
            (none.clone(), form(&[("client_id", &secret)]), "invalid_client"),
            (none.clone(), form(&[("client_id", &secret), ("client_secret", "other")]), "invalid_client"),
            (none.clone(), form(&[("client_id", "abc")]), "invalid_client"),
            (none, form(&[("client_id", "https://a.example/c.json")]), "invalid_client"),
            (with_basic(&secret, "other"), form(&[]), "invalid_client"),
            (with_basic(&secret, &encoded), form(&post), "invalid_request"),
            (with_basic(&secret, &encoded), form(&[("client_id", &public)]), "invalid_request"),
        ];
        for (headers, form, error) in refused {
            assert_eq!(clients.prove(&headers, &form).unwrap_err().error, error, "{form:?}");
        }
    }

    #[tokio::test]
    async fn b106_a_registration_is_its_id_and_only_a_revocation_ends_it() {
        let clients = clients();
        let id = clients.register(&client(None));
        let found = clients.find(&id).await.unwrap();
        assert_eq!((found.redirects.len(), &found.id), (1, &id));
        clients.revoked.revoke(Revocable::Client(&id), u64::MAX / 2).await.unwrap();
        assert_eq!(clients.find(&id).await, Err(UnknownClient::Revoked));
        assert_eq!(
            clients.prove(&HeaderMap::new(), &form(&[("client_id", &id)])).unwrap_err().error,
            "invalid_client"
        );
        let foreign =
            Clients::new(Arc::new(Keyring::random()), clients.revoked.clone(), None, Policy::default());
        assert_eq!(clients.find(&foreign.register(&client(None))).await, Err(UnknownClient::Unknown));
    }
}
