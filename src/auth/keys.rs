//! Public keys that verify tokens, by `kid`: from an issuer's JWKS document, or made here by our own authorisation server.
//! Knows nothing of where they come from.

use super::Epoch;
use arc_swap::ArcSwap;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// Keys of one document that are looked at: issuers have a handful, and each costs memory.
const MOST: usize = 64;

/// The signature algorithms that tokens may bear. `none` and HMAC are not among them, whatever a configuration says.
pub const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// The keys that an issuer signs with at this time.
#[derive(Clone, Default)]
pub struct KeySet {
    keys: Arc<[Key]>,
}

struct Key {
    id: Option<Box<str>>,
    /// What it may verify: all of its kind, or the one that its document names.
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

/// A document is no key set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is no JWKS document")]
pub struct NotKeys;

impl KeySet {
    /// From a JWKS document (RFC 7517 5). Keys that verify no token of ours are passed over: symmetric ones, those for
    /// encryption, those of an unknown kind, and whatever is broken.
    pub fn read(document: &[u8]) -> Result<KeySet, NotKeys> {
        let document: Value = serde_json::from_slice(document).map_err(|_| NotKeys)?;
        let keys = document.get("keys").and_then(Value::as_array).ok_or(NotKeys)?;
        Ok(KeySet { keys: keys.iter().take(MOST).filter_map(Key::read).collect() })
    }

    /// The keys that a token may have been signed with which names this key and algorithm. A token without a `kid` may be
    /// of any; a `kid` is compared and never looked up anywhere else, so it may hold whatever it likes.
    pub fn find(&self, id: Option<&str>, algorithm: Algorithm) -> impl Iterator<Item = &DecodingKey> {
        let fits = move |key: &&Key| {
            key.algorithms.contains(&algorithm) && (id.is_none() || id == key.id.as_deref())
        };
        self.keys.iter().filter(fits).map(|key| &key.key)
    }

    /// Whether some key bears this name.
    pub fn has(&self, id: &str) -> bool {
        self.keys.iter().any(|key| key.id.as_deref() == Some(id))
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// Names alone: whether a key is the right one is seen by that.
impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| &key.id)).finish()
    }
}

impl Key {
    fn read(value: &Value) -> Option<Key> {
        let jwk: Jwk = serde_json::from_value(value.clone()).ok()?;
        if jwk.common.public_key_use.as_ref().is_some_and(|used| *used != PublicKeyUse::Signature) {
            return None;
        }
        let operations = jwk.common.key_operations.as_ref();
        if operations.is_some_and(|operations| !operations.contains(&KeyOperations::Verify)) {
            return None;
        }
        let mut algorithms = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => AlgorithmFamily::Rsa.algorithms().to_vec(),
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
                vec![Algorithm::ES256]
            }
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P384 => {
                vec![Algorithm::ES384]
            }
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
                vec![Algorithm::EdDSA]
            }
            _ => return None,
        };
        if let Some(named) = jwk.common.key_algorithm {
            let named = Algorithm::try_from(named).ok()?;
            algorithms.retain(|algorithm| *algorithm == named);
        }
        if algorithms.is_empty() {
            return None;
        }
        let key = DecodingKey::from_jwk(&jwk).ok()?;
        Some(Key { id: jwk.common.key_id.map(Into::into), algorithms, key })
    }
}

/// The key set in use, which its owner replaces: tokens that were verified with the keys before are verified anew.
pub struct Keys {
    set: ArcSwap<KeySet>,
    epoch: Epoch,
}

impl Keys {
    pub fn new(set: KeySet, epoch: Epoch) -> Keys {
        Keys { set: ArcSwap::from_pointee(set), epoch }
    }

    pub fn now(&self) -> Arc<KeySet> {
        self.set.load_full()
    }

    pub fn replace(&self, set: KeySet) {
        self.set.store(Arc::new(set));
        self.epoch.advance();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ed(more: Value) -> Value {
        let mut key =
            json!({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"});
        key.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        key
    }

    fn set(keys: Value) -> KeySet {
        KeySet::read(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
    }

    #[test]
    fn keys_that_verify_nothing_of_ours_are_passed_over_and_spoil_no_others() {
        let strange = json!([
            ed(json!({"kid": "enc", "use": "enc"})),
            ed(json!({"kid": "ops", "key_ops": ["sign"]})),
            ed(json!({"kid": "alg", "alg": "RS256"})),
            ed(json!({"kid": "hs", "alg": "HS256"})),
            {"kty": "oct", "kid": "oct", "k": "c2VjcmV0", "alg": "HS256"},
            {"kty": "EC", "crv": "secp256k1", "kid": "k1", "x": "AA", "y": "AA"},
            {"kty": "AKP", "kid": "pq", "alg": "ML-DSA-44", "pub": "AA"},
            {"kty": "RSA", "kid": "half", "n": "AQAB"},
            "no key", null, 7,
            ed(json!({"kid": "good", "use": "sig", "alg": "EdDSA"})),
        ]);
        let set = set(strange);
        assert_eq!(format!("{set:?}"), r#"[Some("good")]"#);
        assert_eq!(set.find(Some("good"), Algorithm::EdDSA).count(), 1);
    }

    #[test]
    fn a_key_is_found_by_its_name_for_its_own_algorithm_alone() {
        let set = set(json!([ed(json!({"kid": "a"})), ed(json!({}))]));
        assert_eq!(set.find(Some("a"), Algorithm::EdDSA).count(), 1);
        assert_eq!(set.find(None, Algorithm::EdDSA).count(), 2);
        for algorithm in [Algorithm::HS256, Algorithm::RS256, Algorithm::ES256] {
            assert_eq!(set.find(Some("a"), algorithm).count(), 0);
        }
        for id in ["", "b", "../a", "a' OR '1'='1", "https://evil.example/jwks"] {
            assert_eq!(set.find(Some(id), Algorithm::EdDSA).count(), 0, "{id}");
        }
    }

    #[test]
    fn what_is_no_key_set_is_said_to_be_none() {
        for text in ["", "[]", "{}", r#"{"keys":{}}"#, "<html>"] {
            assert_eq!(KeySet::read(text.as_bytes()).err(), Some(NotKeys), "{text}");
        }
        assert!(KeySet::read(br#"{"keys":[]}"#).unwrap().is_empty());
    }
}
