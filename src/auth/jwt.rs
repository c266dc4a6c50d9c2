//! One access token of an issuer, verified (RFC 9068, RFC 7519, RFC 8725): who signed it, for whom, for how long. What its header
//! says of keys but their name is not looked at.

use super::jwks::Jwks;
use super::keys::{KeySet, Keys};
use super::{FAMILY, Revocable, Revoked, api_key, now};
use crate::mcp::{Access, Principal, Scopes};
use jsonwebtoken::{Algorithm, Validation};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Longest token that is looked at, in bytes.
const LONGEST: usize = 16 << 10;
/// Longest subject, tenant and client, in bytes: they stand in keys of the store and in logs.
const LONGEST_NAME: usize = 1024;

/// An issuer whose tokens are taken.
pub struct Issuer {
    /// Exactly as in `iss`.
    pub id: String,
    pub keys: Source,
    /// Of [`ALGORITHMS`](super::keys::ALGORITHMS).
    pub algorithms: Vec<Algorithm>,
    /// Audiences that are taken besides the resource that is asked for.
    pub audiences: Vec<String>,
    pub tenant: Tenant,
    /// Claims that a token must have, with their values.
    pub required: Vec<(String, String)>,
}

/// Where an issuer's keys come from.
pub enum Source {
    /// It is our own authorisation server.
    Own(Arc<Keys>),
    Fetched(Arc<Jwks>),
}

/// Whose an issuer's principals are.
pub enum Tenant {
    Always(Arc<str>),
    Claim(String),
}

/// Why a token is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// It is none, or not as it must be.
    Invalid(&'static str),
    /// Its issuer's keys cannot be had.
    Unknown,
}

use Refused::{Invalid, Unknown};

const NO_JWT: Refused = Invalid("the access token is no JWT");

/// What is read of a token before it is verified: by whom it claims to be.
#[derive(serde::Deserialize)]
struct Claimed {
    iss: Option<String>,
}

/// What `token` is let in with at the resource of these URLs.
pub async fn verify(
    issuers: &[Issuer],
    token: &str,
    resource: &[String],
    skew: u64,
    revoked: &Revoked,
) -> Result<Access, Refused> {
    if token.len() > LONGEST {
        return Err(Invalid("the access token is too long"));
    }
    let header = jsonwebtoken::decode_header(token).map_err(|_| NO_JWT)?;
    let kind = header.typ.as_deref().map(|kind| kind.to_ascii_lowercase());
    let kind = kind.as_deref().map(|kind| kind.strip_prefix("application/").unwrap_or(kind));
    if !matches!(kind, None | Some("at+jwt" | "jwt")) {
        return Err(Invalid("the token is no access token"));
    }
    let claimed: Claimed =
        jsonwebtoken::dangerous::insecure_decode::<Claimed>(token).map_err(|_| NO_JWT)?.claims;
    let issuer = issuers.iter().find(|issuer| Some(&*issuer.id) == claimed.iss.as_deref());
    let issuer = issuer.ok_or(Invalid("the access token is of an issuer that is not trusted here"))?;
    if !issuer.algorithms.contains(&header.alg) {
        return Err(Invalid("the access token is signed by an algorithm that is not taken"));
    }
    let claims = issuer.signed(token, header.alg, header.kid.as_deref()).await?;
    issuer.access(claims, resource, skew, revoked)
}

impl Issuer {
    /// The claims, where a key of this issuer signed them. A key that is not known, or another of the same name, may be new.
    async fn signed(
        &self,
        token: &str,
        algorithm: Algorithm,
        key: Option<&str>,
    ) -> Result<Map<String, Value>, Refused> {
        let fetched = match &self.keys {
            Source::Own(keys) => return try_keys(&keys.now(), token, algorithm, key).ok_or(SIGNATURE),
            Source::Fetched(jwks) => jwks,
        };
        if let Some(claims) = fetched.now().and_then(|keys| try_keys(&keys, token, algorithm, key)) {
            return Ok(claims);
        }
        fetched.renewed().await;
        let keys = fetched.now().ok_or(Unknown)?;
        try_keys(&keys, token, algorithm, key).ok_or(SIGNATURE)
    }

    fn access(
        &self,
        mut claims: Map<String, Value>,
        resource: &[String],
        skew: u64,
        revoked: &Revoked,
    ) -> Result<Access, Refused> {
        // What only keys of machines have: profiles admit by it.
        claims.remove(api_key::CLAIM);
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let named = |name: &str| text(name).filter(|text| !text.is_empty() && text.len() <= LONGEST_NAME);
        let time = |name: &str| claims.get(name).map(|value| value.as_f64().filter(|time| *time >= 0.0));
        let now = now();
        let until = time("exp").flatten().ok_or(Invalid("the access token has no end"))? as u64;
        if until.saturating_add(skew) <= now {
            return Err(Invalid("the access token has expired"));
        }
        match time("nbf") {
            None => {}
            Some(Some(from)) if from as u64 <= now.saturating_add(skew) => {}
            Some(_) => return Err(Invalid("the access token is not valid yet")),
        }
        let ours = |audience: &str| resource.iter().chain(&self.audiences).any(|ours| ours == audience);
        let meant = match claims.get("aud") {
            Some(Value::String(audience)) => ours(audience),
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).any(ours),
            _ => false,
        };
        if !meant {
            return Err(Invalid("the access token is for another resource"));
        }
        for (name, value) in &self.required {
            let found = match claims.get(name) {
                Some(Value::Array(several)) => several.iter().any(|one| is(one, value)),
                Some(one) => is(one, value),
                None => false,
            };
            if !found {
                return Err(Invalid("the access token lacks a claim that is required here"));
            }
        }
        let subject = named("sub").ok_or(Invalid("the access token has no subject"))?;
        let tenant = match &self.tenant {
            Tenant::Always(tenant) => tenant,
            Tenant::Claim(name) => named(name).ok_or(Invalid("the access token names no tenant"))?,
        };
        let client = named("client_id").or_else(|| named("azp")).or_else(|| named("cid"));
        if self.is_revoked(&claims, revoked) {
            return Err(Invalid("the access token was revoked"));
        }
        Ok(Access {
            principal: Arc::new(Principal::minted(tenant, &self.id, subject)),
            scopes: scopes(&claims),
            client: client.map(Arc::from),
            until: Some(until.saturating_add(skew)),
            claims: Arc::new(claims),
            token: None,
        })
    }

    /// Whether what was let in by a token of this issuer was revoked since.
    pub fn has_revoked(&self, access: &Access, revoked: &Revoked) -> bool {
        self.is_revoked(&access.claims, revoked)
    }

    fn is_revoked(&self, claims: &Map<String, Value>, revoked: &Revoked) -> bool {
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let token = text("jti").map(|id| Revocable::Token { issuer: &self.id, id });
        // What only our own server's tokens say.
        let own = matches!(self.keys, Source::Own(_));
        let family = text(FAMILY).filter(|_| own).map(Revocable::Family);
        // As it is written, however long: sealed ids of clients are.
        let client = text("client_id").filter(|_| own).map(Revocable::Client);
        [token, family, client].into_iter().flatten().any(|what| revoked.has(what))
    }
}

const SIGNATURE: Refused = Invalid("the access token is not signed by its issuer");

/// The claims, where one of these keys signed them.
fn try_keys(
    keys: &KeySet,
    token: &str,
    algorithm: Algorithm,
    key: Option<&str>,
) -> Option<Map<String, Value>> {
    let mut signature = Validation::new(algorithm);
    // The claims are judged here, and by their type.
    signature.required_spec_claims.clear();
    signature.validate_exp = false;
    signature.validate_aud = false;
    keys.find(key, algorithm).find_map(|key| Some(jsonwebtoken::decode(token, key, &signature).ok()?.claims))
}

/// `scope` as one text (RFC 8693 4.2), or `scp` as a list or a text.
fn scopes(claims: &Map<String, Value>) -> Scopes {
    match claims.get("scope").or_else(|| claims.get("scp")) {
        Some(Value::String(text)) => Scopes::read(text),
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).map(Arc::from).collect(),
        _ => Scopes::default(),
    }
}

/// Whether a claim has this value as the configuration writes it.
fn is(claim: &Value, value: &str) -> bool {
    match claim {
        Value::String(text) => text == value,
        Value::Bool(is) => value == if *is { "true" } else { "false" },
        Value::Number(number) => number.to_string().as_str() == value,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Epoch;
    use crate::store::Memory;
    use serde_json::json;

    #[tokio::test]
    async fn a_revoked_client_is_known_by_its_id_however_long_that_is() {
        let revoked = Revoked::new(Arc::new(Memory::new(1 << 20)), Epoch::default());
        let issuer = Issuer {
            id: "https://mcp.example".to_owned(),
            keys: Source::Own(Arc::new(Keys::new(KeySet::default(), Epoch::default()))),
            algorithms: Vec::new(),
            audiences: Vec::new(),
            tenant: Tenant::Always("t".into()),
            required: Vec::new(),
        };
        let client = "c".repeat(3 * LONGEST_NAME);
        let claims = json!({
            "sub": "alice", "exp": now() + 60, "aud": "https://mcp.example/mcp", "client_id": client, "api_key": "ci",
        });
        let take = || {
            let claims = claims.as_object().expect("an object").clone();
            issuer.access(claims, &["https://mcp.example/mcp".to_owned()], 0, &revoked)
        };
        let access = take().expect("it is good");
        assert!(!issuer.has_revoked(&access, &revoked));
        assert!(!access.claims.contains_key(api_key::CLAIM), "a token is no key of a machine");
        revoked.revoke(Revocable::Client(&client), now() + 60).await.expect("there is room");
        assert!(issuer.has_revoked(&access, &revoked), "what it let in ends");
        assert_eq!(take().unwrap_err(), Invalid("the access token was revoked"));
    }
}
