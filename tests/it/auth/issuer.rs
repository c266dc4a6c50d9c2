//! An issuer of tokens on loopback: metadata and keys over HTTP, real keys of each kind, and tokens of any make, also such as no
//! honest issuer would sign.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair,
};
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub fn base64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Seconds since the epoch.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs()
}

/// A private key, its name and its algorithm.
pub struct Key {
    pub id: String,
    pub algorithm: &'static str,
    pair: Pair,
}

enum Pair {
    Ed(Ed25519KeyPair),
    Ec(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl Key {
    /// A fresh key for `EdDSA`, `ES256`, `ES384`, `RS256` or `PS256`.
    pub fn new(id: &str, algorithm: &'static str) -> Key {
        let ec =
            |curve: &'static EcdsaSigningAlgorithm| Pair::Ec(EcdsaKeyPair::generate(curve).expect("a key"));
        let pair = match algorithm {
            "EdDSA" => Pair::Ed(Ed25519KeyPair::generate().expect("a key")),
            "ES256" => ec(&ECDSA_P256_SHA256_FIXED_SIGNING),
            "ES384" => ec(&ECDSA_P384_SHA384_FIXED_SIGNING),
            _ => Pair::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).expect("a key")),
        };
        Key { id: id.to_owned(), algorithm, pair }
    }

    /// Its public half, as a JWK.
    pub fn public(&self) -> Value {
        let mut jwk = match &self.pair {
            Pair::Ed(pair) => json!({"kty": "OKP", "crv": "Ed25519", "x": base64(pair.public_key())}),
            Pair::Ec(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(pair.public_key().as_ref().len() / 2);
                let curve = if x.len() == 32 { "P-256" } else { "P-384" };
                json!({"kty": "EC", "crv": curve, "x": base64(x), "y": base64(y)})
            }
            Pair::Rsa(pair) => {
                let (n, e) = modulus_and_exponent(pair.public_key().as_ref());
                json!({"kty": "RSA", "n": base64(n), "e": base64(e)})
            }
        };
        jwk["kid"] = self.id.as_str().into();
        jwk["alg"] = self.algorithm.into();
        jwk["use"] = "sig".into();
        jwk
    }

    /// What of it anyone may know, in the bytes that alg confusion makes an HMAC key of.
    pub fn public_bytes(&self) -> Vec<u8> {
        match &self.pair {
            Pair::Ed(pair) => pair.public_key().as_ref().to_vec(),
            Pair::Ec(pair) => pair.public_key().as_ref().to_vec(),
            Pair::Rsa(pair) => pair.public_key().as_ref().to_vec(),
        }
    }

    fn sign(&self, text: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Ed(pair) => pair.sign(text).as_ref().to_vec(),
            Pair::Ec(pair) => pair.sign(&random, text).expect("a signature").as_ref().to_vec(),
            Pair::Rsa(pair) => {
                let encoding: &'static dyn RsaEncoding =
                    if self.algorithm == "PS256" { &RSA_PSS_SHA256 } else { &RSA_PKCS1_SHA256 };
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(encoding, &random, text, &mut signature).expect("a signature");
                signature
            }
        }
    }

    /// The head of an honest token.
    pub fn head(&self) -> Value {
        json!({"alg": self.algorithm, "kid": self.id, "typ": "at+jwt"})
    }

    /// A token of exactly this head and these claims.
    pub fn token(&self, head: &Value, claims: &Value) -> String {
        let text = unsigned(head, claims);
        let signature = base64(self.sign(text.as_bytes()));
        format!("{text}.{signature}")
    }
}

/// What of a token is signed.
pub fn unsigned(head: &Value, claims: &Value) -> String {
    format!("{}.{}", base64(head.to_string()), base64(claims.to_string()))
}

/// The two integers of a PKCS #1 public key.
fn modulus_and_exponent(der: &[u8]) -> (&[u8], &[u8]) {
    fn value(der: &[u8]) -> (&[u8], &[u8]) {
        let (length, rest) = match der[1] {
            short @ 0..=0x7f => (usize::from(short), &der[2..]),
            0x81 => (usize::from(der[2]), &der[3..]),
            _ => (usize::from(u16::from_be_bytes([der[2], der[3]])), &der[4..]),
        };
        rest.split_at(length)
    }
    let (sequence, _) = value(der);
    let (modulus, rest) = value(sequence);
    let (exponent, _) = value(rest);
    (modulus.strip_prefix(&[0]).unwrap_or(modulus), exponent)
}

/// The issuer. Its listener ends with this value.
pub struct Issuer {
    pub id: String,
    pub key: Key,
    served: Arc<Served>,
    task: tokio::task::AbortHandle,
}

struct Served {
    id: String,
    keys: Mutex<Value>,
    /// Fetches of the keys so far.
    fetches: AtomicUsize,
    away: AtomicBool,
    slow: AtomicBool,
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Issuer {
    /// With one key of this algorithm, at a free port of loopback.
    pub async fn start(algorithm: &'static str) -> Issuer {
        let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await;
        let listener = listener.expect("a free port");
        let id = format!("http://{}", listener.local_addr().expect("an address"));
        let key = Key::new("first", algorithm);
        let served = Arc::new(Served {
            id: id.clone(),
            keys: Mutex::new(json!([key.public()])),
            fetches: AtomicUsize::new(0),
            away: AtomicBool::new(false),
            slow: AtomicBool::new(false),
        });
        let routes = Router::new()
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/jwks", get(keys))
            .with_state(served.clone());
        let task = tokio::spawn(async move { axum::serve(listener, routes).await }).abort_handle();
        Issuer { id, key, served, task }
    }

    /// What the gateway's configuration says of it.
    pub fn config(&self) -> Value {
        json!({ "issuer": self.id })
    }

    /// The claims of a token for this audience.
    pub fn claims(&self, audience: &str) -> Value {
        json!({
            "iss": self.id, "sub": "alice", "aud": audience, "client_id": "it",
            "exp": now() + 600, "iat": now(), "scope": "mcp:call",
        })
    }

    /// An honest token of someone for an audience.
    pub fn token(&self, audience: &str, subject: &str) -> String {
        let mut claims = self.claims(audience);
        claims["sub"] = subject.into();
        self.sign(&claims)
    }

    /// These claims, signed as an honest issuer does.
    pub fn sign(&self, claims: &Value) -> String {
        self.key.token(&self.key.head(), claims)
    }

    /// Publishes these keys from now on.
    pub fn publish(&self, keys: Value) {
        *self.served.keys.lock().expect("no holder panics") = keys;
    }

    pub fn fetches(&self) -> usize {
        self.served.fetches.load(Ordering::SeqCst)
    }

    /// Answers 500 from now on.
    pub fn go_away(&self, away: bool) {
        self.served.away.store(away, Ordering::SeqCst);
    }

    /// Takes its time for each answer from now on.
    pub fn dawdle(&self) {
        self.served.slow.store(true, Ordering::SeqCst);
    }
}

async fn metadata(State(served): State<Arc<Served>>) -> Response {
    answer(&served, json!({ "issuer": served.id, "jwks_uri": format!("{}/jwks", served.id) })).await
}

async fn keys(State(served): State<Arc<Served>>) -> Response {
    served.fetches.fetch_add(1, Ordering::SeqCst);
    let keys = served.keys.lock().expect("no holder panics").clone();
    answer(&served, json!({ "keys": keys })).await
}

async fn answer(served: &Served, document: Value) -> Response {
    if served.slow.load(Ordering::SeqCst) {
        // What waits meanwhile is the test's matter.
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    if served.away.load(Ordering::SeqCst) {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    ([("content-type", "application/json")], document.to_string()).into_response()
}
