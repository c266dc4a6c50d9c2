//! From a configured secret to the keys that seal: one a purpose, and an id that may be shown.

use aws_lc_rs::aead::{AES_256_GCM_SIV, LessSafeKey, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use secrecy::{ExposeSecret as _, SecretSlice, SecretString};

use super::Purpose;

/// The least a secret may hold, in bytes.
const LEAST: usize = 32;
/// What these derivations are for, so that the same secret used elsewhere gives other keys. A change of the format changes it.
const SALT: &[u8] = b"plasm-mcp sealing 1";

/// What is wrong with a configured key. Says nothing of its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("a sealing key is not base64")]
    Text,
    #[error("a sealing key has fewer than {LEAST} bytes")]
    Short,
    #[error("the keyring has no key")]
    None,
    #[error("the keyring has one key twice")]
    Twice,
}

/// The secret that a ring's key is derived from: at least 32 random bytes. Wiped when it is dropped.
pub struct KeyMaterial(SecretSlice<u8>);

impl KeyMaterial {
    /// Error: fewer than 32 bytes.
    pub fn from_bytes(secret: Vec<u8>) -> Result<Self, KeyError> {
        let secret = SecretSlice::from(secret);
        if secret.expose_secret().len() < LEAST { Err(KeyError::Short) } else { Ok(KeyMaterial(secret)) }
    }

    /// From base64, of either alphabet, padded or not, as `openssl rand -base64 32` writes it; space around it is ignored.
    pub fn from_text(secret: &SecretString) -> Result<Self, KeyError> {
        Self::from_bytes(read_base64(secret.expose_secret()).ok_or(KeyError::Text)?)
    }

    pub(super) fn random() -> Self {
        let mut secret = vec![0; LEAST];
        aws_lc_rs::rand::fill(&mut secret)
            .expect("the system's random source does not fail once it is seeded");
        KeyMaterial(SecretSlice::from(secret))
    }
}

/// Base64 of either alphabet, padded or not; space around it is ignored.
pub fn read_base64(text: &str) -> Option<Vec<u8>> {
    let lenient = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    [alphabet::STANDARD, alphabet::URL_SAFE]
        .iter()
        .find_map(|alphabet| GeneralPurpose::new(alphabet, lenient).decode(text.trim()).ok())
}

/// Names a key in what it sealed. Derived from the secret by a one-way function: every pod with the secret has the same.
pub(super) type Id = [u8; 4];

pub(super) struct Key {
    pub(super) id: Id,
    /// In the order of [`Purpose::ALL`].
    purposes: [LessSafeKey; Purpose::ALL.len()],
}

impl Key {
    pub(super) fn derive(material: &KeyMaterial) -> Self {
        let root = Salt::new(HKDF_SHA256, SALT).extract(material.0.expose_secret());
        let mut id = Id::default();
        expand(&root, "id", "", &mut id);
        let purposes = Purpose::ALL.map(|purpose| {
            let mut key = [0; 32];
            expand(&root, "key", purpose.label(), &mut key);
            LessSafeKey::new(
                UnboundKey::new(&AES_256_GCM_SIV, &key).expect("the algorithm's key has 32 bytes"),
            )
        });
        Key { id, purposes }
    }

    pub(super) fn of(&self, purpose: Purpose) -> &LessSafeKey {
        &self.purposes[purpose as usize]
    }
}

/// HKDF-Expand (RFC 5869, 2.3), with `kind` and `label` told apart by a zero byte, which neither holds.
fn expand(root: &Prk, kind: &str, label: &str, out: &mut [u8]) {
    struct Length(usize);
    impl KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    let info = [kind.as_bytes(), b"\0", label.as_bytes()];
    root.expand(&info, Length(out.len()))
        .and_then(|okm| okm.fill(out))
        .expect("an output of at most 32 bytes is within HKDF's bound, and its length is the asked one");
}
