//! The keys that sign our access tokens: a keyring of secrets, of which the first signs and all verify; and their public
//! halves as a JWKS document.

use crate::auth::KeySet;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Serialize;
use serde_json::{Value, json};

/// What the derivation is for, so that the same secret used elsewhere gives other keys.
const SALT: &[u8] = b"plasm-mcp token signing 1";
/// The least that a secret which is not PEM holds, in bytes.
const LEAST: usize = 32;

/// What is wrong with a configured signing key. Says nothing of its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("is neither PEM (PKCS #8, Ed25519 or P-256) nor base64 of at least {LEAST} bytes")]
    Form,
    #[error("stands twice")]
    Twice,
    #[error("there is no signing key")]
    None,
}

/// The keyring.
pub struct SigningKeys(Vec<Key>);

struct Key {
    pair: Pair,
    /// RFC 7638.
    thumbprint: String,
}

enum Pair {
    Ed(Box<Ed25519KeyPair>),
    Ec(Box<EcdsaKeyPair>),
}

impl SigningKeys {
    /// The first signs. Each is a private key in PEM (`openssl genpkey -algorithm ed25519`, or `-algorithm EC -pkeyopt
    /// ec_paramgen_curve:P-256`), or base64 of random bytes, from which an Ed25519 key is derived.
    pub fn read(secrets: &[SecretString]) -> Result<SigningKeys, (usize, KeyError)> {
        let mut keys: Vec<Key> = Vec::new();
        for (index, secret) in secrets.iter().enumerate() {
            let key = Key::read(secret).map_err(|error| (index, error))?;
            if keys.iter().any(|other| other.thumbprint == key.thumbprint) {
                return Err((index, KeyError::Twice));
            }
            keys.push(key);
        }
        if keys.is_empty() { Err((0, KeyError::None)) } else { Ok(SigningKeys(keys)) }
    }

    /// One key that nobody else has and that ends with the process. For a single pod with the memory store only.
    pub fn random() -> SigningKeys {
        let mut seed = [0; 32];
        aws_lc_rs::rand::fill(&mut seed).expect("the system's random source does not fail once it is seeded");
        SigningKeys(vec![Key::of_seed(&seed)])
    }

    /// A JWT of these claims (RFC 7515), of the type of access tokens (RFC 9068 2.1).
    pub fn sign(&self, claims: &impl Serialize) -> String {
        let key = self.0.first().expect("a keyring has a key: `read` refuses an empty one");
        let head = json!({"typ": "at+jwt", "alg": key.algorithm(), "kid": key.thumbprint});
        let claims = serde_json::to_vec(claims).expect("claims are maps of plain values");
        let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(head.to_string()), URL_SAFE_NO_PAD.encode(claims));
        let signature = key.sign(text.as_bytes());
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// The public keys (RFC 7517 5).
    pub fn jwks(&self) -> Value {
        json!({"keys": self.0.iter().map(Key::public).collect::<Vec<_>>()})
    }

    /// The public keys, for whoever verifies here.
    pub fn verifying(&self) -> KeySet {
        KeySet::read(self.jwks().to_string().as_bytes()).expect("our own key set is one")
    }

    /// The algorithms that tokens may bear.
    pub fn algorithms(&self) -> Vec<&'static str> {
        let mut all: Vec<_> = self.0.iter().map(Key::algorithm).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl Key {
    fn read(secret: &SecretString) -> Result<Key, KeyError> {
        let text = secret.expose_secret().trim();
        if text.starts_with("-----BEGIN") {
            let der = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes()).map_err(|_| KeyError::Form)?;
            let der = der.secret_pkcs8_der();
            if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
                return Ok(Key::of(Pair::Ed(Box::new(pair))));
            }
            let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der);
            return pair.map(|pair| Key::of(Pair::Ec(Box::new(pair)))).map_err(|_| KeyError::Form);
        }
        let bytes = crate::sealing::read_base64(text).ok_or(KeyError::Form)?;
        if bytes.len() < LEAST {
            return Err(KeyError::Form);
        }
        let mut seed = [0; 32];
        struct Seed;
        impl KeyType for Seed {
            fn len(&self) -> usize {
                32
            }
        }
        let root = Salt::new(HKDF_SHA256, SALT).extract(&bytes);
        root.expand(&[b"ed25519"], Seed)
            .and_then(|okm| okm.fill(&mut seed))
            .expect("32 bytes are within HKDF's bound");
        Ok(Key::of_seed(&seed))
    }

    fn of_seed(seed: &[u8; 32]) -> Key {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).expect("any 32 bytes are a seed");
        Key::of(Pair::Ed(Box::new(pair)))
    }

    fn of(pair: Pair) -> Key {
        let mut key = Key { pair, thumbprint: String::new() };
        // Its members are in the order that RFC 7638 asks for: serde_json sorts them.
        let bare = key.bare().to_string();
        key.thumbprint = crate::auth::digest_text(bare.as_bytes());
        key
    }

    fn algorithm(&self) -> &'static str {
        match self.pair {
            Pair::Ed(_) => "EdDSA",
            Pair::Ec(_) => "ES256",
        }
    }

    fn sign(&self, text: &[u8]) -> Vec<u8> {
        match &self.pair {
            Pair::Ed(pair) => pair.sign(text).as_ref().to_vec(),
            Pair::Ec(pair) => {
                let signed = pair.sign(&SystemRandom::new(), text);
                signed.expect("signing fails only without random bytes").as_ref().to_vec()
            }
        }
    }

    fn bare(&self) -> Value {
        match &self.pair {
            Pair::Ed(pair) => {
                json!({"crv": "Ed25519", "kty": "OKP", "x": URL_SAFE_NO_PAD.encode(pair.public_key())})
            }
            Pair::Ec(pair) => {
                // An uncompressed point: 4, x, y.
                let point = pair.public_key().as_ref();
                let (x, y) = point[1..].split_at(32);
                let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
                json!({"crv": "P-256", "kty": "EC", "x": x, "y": y})
            }
        }
    }

    fn public(&self) -> Value {
        let mut key = self.bare();
        key["kid"] = self.thumbprint.clone().into();
        key["use"] = "sig".into();
        key["alg"] = self.algorithm().into();
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};

    fn secret(text: &str) -> SecretString {
        SecretString::from(text.to_owned())
    }

    fn verified(keys: &SigningKeys, token: &str) -> Option<Value> {
        let kid = decode_header(token).ok()?.kid?;
        let jwks = keys.jwks();
        let jwk = jwks["keys"].as_array()?.iter().find(|key| key["kid"] == *kid)?.clone();
        let key = DecodingKey::from_jwk(&serde_json::from_value(jwk).ok()?).ok()?;
        let mut rules = Validation::new(decode_header(token).ok()?.alg);
        rules.required_spec_claims.clear();
        rules.validate_exp = false;
        decode::<Value>(token, &key, &rules).ok().map(|token| token.claims)
    }

    #[test]
    fn what_either_kind_of_key_signs_its_public_half_verifies() {
        let pem = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap().serialize_pem();
        let ed = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap().serialize_pem();
        for (text, algorithm) in
            [(pem, Algorithm::ES256), (ed, Algorithm::EdDSA), ("A".repeat(43), Algorithm::EdDSA)]
        {
            let keys = SigningKeys::read(&[secret(&text)]).unwrap();
            let token = keys.sign(&json!({"sub": "x"}));
            assert_eq!(decode_header(&token).unwrap().alg, algorithm);
            assert_eq!(decode_header(&token).unwrap().typ.as_deref(), Some("at+jwt"));
            assert_eq!(verified(&keys, &token).unwrap()["sub"], "x");
        }
    }

    #[test]
    fn a_key_that_is_added_verifies_before_it_signs_and_the_old_one_after() {
        let (old, new) = (secret(&"A".repeat(43)), secret(&"E".repeat(43)));
        let before = SigningKeys::read(&[old.clone(), new.clone()]).unwrap();
        let after = SigningKeys::read(&[new, old]).unwrap();
        for (signs, verifies) in [(&before, &after), (&after, &before)] {
            assert!(verified(verifies, &signs.sign(&json!({"sub": "x"}))).is_some());
        }
        assert_ne!(before.jwks()["keys"][0], after.jwks()["keys"][0]);
    }

    #[test]
    fn what_is_no_key_is_refused_without_showing_it() {
        for bad in ["", "short", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"] {
            assert_eq!(SigningKeys::read(&[secret(bad)]).err(), Some((0, KeyError::Form)), "{bad}");
        }
        let one = secret(&"A".repeat(43));
        assert_eq!(SigningKeys::read(&[one.clone(), one]).err(), Some((1, KeyError::Twice)));
        assert_eq!(SigningKeys::read(&[]).err(), Some((0, KeyError::None)));
    }
}
