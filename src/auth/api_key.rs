//! Keys of machines: `plasm_<id>_<secret>`. The id says which key it is, in logs and to scanners of leaked secrets; of the whole
//! only a digest is kept.

use super::{Revocable, Revoked, now};
use crate::mcp::{Access, Principal, Scopes};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// What all keys begin with.
pub const PREFIX: &str = "plasm_";
/// Who vouches for the principals of keys, among the issuers.
pub const ISSUER: &str = crate::mcp::caller::KEYS;
/// The claim by which profiles and policies know a key: its id.
pub(super) const CLAIM: &str = "api_key";
/// Shortest secret of a key that a digest is made of: what is shorter could be guessed from the digest.
const SHORTEST: usize = 32;

/// A key as it is configured.
#[derive(Clone, Debug)]
pub struct ApiKey {
    /// SHA-256 of the whole key. A slow digest would protect a password; 256 random bits are not guessed at any speed, and a slow
    /// one would be paid on every request of a stranger.
    pub digest: [u8; 32],
    pub access: Arc<Access>,
}

/// The keys by id.
#[derive(Default)]
pub struct ApiKeys(HashMap<Box<str>, ApiKey>);

impl ApiKeys {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What a key is let in with. `Err`: why it is not, for people.
    pub fn verify(&self, key: &str, revoked: &Revoked) -> Result<Arc<Access>, &'static str> {
        const UNKNOWN: &str = "the API key is not known here";
        let (id, _) = parts(key).ok_or(UNKNOWN)?;
        let known = self.0.get(id).ok_or(UNKNOWN)?;
        if verify_slices_are_equal(digest(&SHA256, key.as_bytes()).as_ref(), &known.digest).is_err() {
            return Err(UNKNOWN);
        }
        if known.access.until.is_some_and(|until| until <= now()) {
            return Err("the API key has expired");
        }
        match revoked.has(Revocable::ApiKey(id)) {
            true => Err("the API key was revoked"),
            false => Ok(known.access.clone()),
        }
    }
}

impl FromIterator<(Box<str>, ApiKey)> for ApiKeys {
    fn from_iter<I: IntoIterator<Item = (Box<str>, ApiKey)>>(keys: I) -> ApiKeys {
        ApiKeys(keys.into_iter().collect())
    }
}

impl ApiKey {
    /// `hash` as [`hash`] writes it; `None` where it is not of that form.
    pub fn new(
        id: &str,
        hash: &str,
        tenant: &str,
        subject: &str,
        scopes: Scopes,
        until: Option<u64>,
    ) -> Option<ApiKey> {
        let hex = hash.strip_prefix("sha256:").filter(|hex| hex.len() == 64 && hex.is_ascii())?;
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(hex.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        let principal = Arc::new(Principal::minted(tenant, ISSUER, subject));
        let claims = Arc::new(Map::from_iter([(CLAIM.to_owned(), Value::from(id))]));
        Some(ApiKey { digest, access: Arc::new(Access { scopes, until, claims, ..Access::open(principal) }) })
    }
}

/// The id of the key that something was let in with.
pub fn id(access: &Access) -> Option<&str> {
    access.claims.get(CLAIM).and_then(Value::as_str)
}

/// Id and secret.
fn parts(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix(PREFIX)?.split_once('_')
}

/// A new key of this id: 256 random bits.
pub fn mint(id: &str) -> String {
    let mut secret = [0u8; 32];
    aws_lc_rs::rand::fill(&mut secret).expect("the system's random source does not fail once it is seeded");
    format!("{PREFIX}{id}_{}", URL_SAFE_NO_PAD.encode(secret))
}

/// A key's id and what the configuration says of it. `None`: it is no key, or its secret is short.
pub fn hash(key: &str) -> Option<(&str, String)> {
    let (id, _) = parts(key).filter(|(id, secret)| !id.is_empty() && secret.len() >= SHORTEST)?;
    let mut text = String::from("sha256:");
    for byte in digest(&SHA256, key.as_bytes()).as_ref() {
        let _ = write!(text, "{byte:02x}");
    }
    Some((id, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Epoch;
    use crate::store::Memory;

    fn keys(entries: &[(&str, &str, Option<u64>)]) -> ApiKeys {
        let one = |(id, key, until): &(&str, &str, Option<u64>)| {
            let (_, hash) = hash(key).unwrap();
            ((*id).into(), ApiKey::new(id, &hash, "t", id, Scopes::read("a b"), *until).unwrap())
        };
        entries.iter().map(one).collect()
    }

    #[tokio::test]
    async fn a_key_opens_for_its_own_whole_text_until_it_ends_or_is_revoked() {
        let (ci, old) = (mint("ci"), mint("old"));
        let keys = keys(&[("ci", &ci, None), ("old", &old, Some(now()))]);
        let revoked = Revoked::new(Arc::new(Memory::new(1 << 20)), Epoch::default());
        let access = keys.verify(&ci, &revoked).unwrap();
        assert_eq!((&*access.principal.tenant, &*access.principal.subject), ("t", "ci"));
        assert!(access.scopes.has("b"));
        assert_eq!(keys.verify(&old, &revoked), Err("the API key has expired"));
        let other = ci.replace("plasm_ci_", "plasm_old_");
        for wrong in [&other, &mint("ci"), &mint("none"), &format!("{ci}x"), "plasm_ci_", "plasm_", ""] {
            assert_eq!(keys.verify(wrong, &revoked), Err("the API key is not known here"), "{wrong}");
        }
        revoked.revoke(Revocable::ApiKey("ci"), now() + 60).await.unwrap();
        assert_eq!(keys.verify(&ci, &revoked), Err("the API key was revoked"));
    }

    #[test]
    fn only_what_cannot_be_guessed_is_hashed() {
        assert!(hash(&mint("ci")).is_some_and(|(id, hash)| id == "ci" && hash.len() == 71));
        for weak in ["plasm_ci_secret", "secret", "plasm__aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"] {
            assert_eq!(hash(weak), None, "{weak}");
        }
    }
}
