//! Families of tokens: all that came of one authorization. Its refresh tokens follow each other, one is good at a time; the one
//! before may be shown again for a few seconds and gets the answer that is kept for it; any other that is shown again ends the
//! family (RFC 9700 4.14). On whichever pods.

use super::Grant;
use crate::auth::digest_text;
use crate::auth::holdings::{Holdings, Kind};
use crate::auth::revoked::{Revocable, Revoked};
use crate::auth::{now, random_text};
use crate::mcp::{Principal, StoreAway};
use crate::sealing::{KeyMaterial, Keyring, Purpose};
use crate::store::{Check, Commit, Key, Store, StoreError, Sure, Write};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// How long it is known that a family has ended, in case a pod is about to begin it.
const REMEMBERED: Duration = Duration::from_secs(3600);
/// How often a renewal looks again, when others renew at the same time.
const LOOKS: usize = 8;
/// Seconds for which an access token is good at most, as the configuration bounds it, with the clock skew that verifiers may allow.
const LONGEST_ACCESS: u64 = 24 * 3600 + 300;
/// Seconds by which the clocks of pods may differ.
const SKEW: u64 = 120;
/// Bytes of a family's name and of a token's mark.
const NAME: usize = 32;
const MARK: usize = 32;

/// How long tokens are good.
#[derive(Clone, Copy, Debug)]
pub struct Lives {
    pub access: Duration,
    /// After its last use.
    pub refresh: Duration,
    /// After the login that it came of, however often it is used.
    pub longest: Duration,
    pub grace: Duration,
}

/// The families.
pub struct Families {
    store: Arc<dyn Store>,
    keyring: Arc<Keyring>,
    revoked: Revoked,
    holdings: Holdings,
    lives: Lives,
}

/// What a family keeps, sealed.
#[derive(Serialize, Deserialize)]
struct Kept {
    grant: Grant,
    /// What its refresh tokens are marked with, so that nobody ends a family by guessing.
    secret: String,
    /// Whose list it stands on.
    issuer: String,
    /// When it began, in seconds since the epoch; 0: before that was kept, and then it counts from its next renewal.
    #[serde(default)]
    begun: u64,
}

/// Why there are no new tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RenewError {
    #[error("the refresh token is not good, or not this client's")]
    Invalid,
    #[error("the scope is more than was granted")]
    Scope,
    #[error("the resource is not the one that was granted")]
    Target,
    #[error("the state store is out of reach")]
    Away,
}

/// What a client asks when it renews.
pub struct Renewal<'a> {
    pub token: &'a str,
    pub client: &'a str,
    pub scope: Option<&'a str>,
    pub resource: Option<&'a str>,
}

/// A refresh token, read: `family | number | mark`.
struct Token {
    family: String,
    number: u32,
    mark: [u8; MARK],
}

impl Families {
    pub fn new(store: Arc<dyn Store>, keyring: Arc<Keyring>, revoked: Revoked, lives: Lives) -> Families {
        let holdings = Holdings::new(store.clone());
        Families { store, keyring, revoked, holdings, lives }
    }

    /// Begins a family and gives its first refresh token; `None`: it was ended before it began.
    pub async fn begin(
        &self,
        family: &str,
        grant: &Grant,
        issuer: &str,
    ) -> Result<Option<String>, StoreAway> {
        let (grant, issuer) = (grant.clone(), issuer.to_owned());
        let kept = Kept { grant, secret: random_text(), issuer, begun: now() };
        if self.revoked.has(Revocable::Principal(&kept.principal())) {
            return Ok(None);
        }
        let token = write(family, 1, &kept.secret);
        self.list(family, &kept).await?;
        let key = key(family);
        let writes = vec![
            (key.clone(), Write::set("d", self.seal(family, &kept))),
            (key.clone(), Write::set("n", "1")),
            (key.clone(), Write::Live(self.life(&kept))),
        ];
        let begun = self.store.commit(vec![(key, Check::Absent)], writes, Sure::Replicas).await;
        match begun.map_err(|_| StoreAway)? {
            Commit::Done(_) => Ok(Some(token)),
            Commit::Failed { .. } => {
                self.holdings.remove(&kept.principal(), Kind::Family, family).await?;
                Ok(None)
            }
        }
    }

    /// The answer to a client that renews. `answer` makes a new one: from what was granted, the scope, the family and the next
    /// refresh token.
    pub async fn renew(
        &self,
        asked: Renewal<'_>,
        answer: impl Fn(&Grant, &str, &str, &str) -> String + Send + Sync,
    ) -> Result<String, RenewError> {
        let away = |_: StoreError| RenewError::Away;
        let shown = Token::read(asked.token).ok_or(RenewError::Invalid)?;
        let (main, before) = (key(&shown.family), answered(&shown.family));
        for _ in 0..LOOKS {
            let record = self.store.get(main.clone()).await.map_err(away)?.ok_or(RenewError::Invalid)?;
            let kept = record.field("d").and_then(|sealed| self.open(&shown.family, sealed));
            let number = record.field("n").and_then(|n| std::str::from_utf8(n).ok()?.parse::<u32>().ok());
            let (Some(mut kept), Some(number)) = (kept, number) else { return Err(RenewError::Invalid) };
            if !shown.is_of(&kept.secret) || kept.grant.client != asked.client || shown.number > number {
                return Err(RenewError::Invalid);
            }
            if kept.begun == 0 {
                kept.begun = now();
            }
            if self.life(&kept).is_zero() || self.revoked.has(Revocable::Principal(&kept.principal())) {
                self.end(&shown.family).await.map_err(|_| RenewError::Away)?;
                return Err(RenewError::Invalid);
            }
            if shown.number == number {
                let scope = narrowed(&kept.grant, asked.scope)?;
                if asked.resource.is_some_and(|resource| resource != kept.grant.resource) {
                    return Err(RenewError::Target);
                }
                let next = write(&shown.family, number + 1, &kept.secret);
                let answer = answer(&kept.grant, scope, &shown.family, &next);
                let sealed =
                    ring(asked.token).seal(Purpose::Grant, shown.family.as_bytes(), answer.as_bytes());
                let is_still = (main.clone(), Check::field("n", number.to_string()));
                let writes = vec![
                    // Sealed anew with the key that seals now.
                    (main.clone(), Write::set("d", self.seal(&shown.family, &kept))),
                    (main.clone(), Write::set("n", (number + 1).to_string())),
                    (main.clone(), Write::Live(self.life(&kept))),
                    (before.clone(), Write::set("n", number.to_string())),
                    (before.clone(), Write::set("a", sealed)),
                    (before.clone(), Write::Live(self.lives.grace)),
                ];
                match self.store.commit(vec![is_still], writes, Sure::Replicas).await.map_err(away)? {
                    Commit::Done(_) => {
                        // It stays on its person's list for as long as it lives; missing there for once is no harm.
                        let _ = self.list(&shown.family, &kept).await;
                        return Ok(answer);
                    }
                    // Another was quicker: it is the one before now.
                    Commit::Failed { .. } => continue,
                }
            }
            let record = self.store.get(before.clone()).await.map_err(away)?;
            let of: Option<u32> =
                record.as_ref().and_then(|record| std::str::from_utf8(record.field("n")?).ok()?.parse().ok());
            match of {
                Some(of) if of == shown.number => {
                    let sealed =
                        record.as_ref().and_then(|record| std::str::from_utf8(record.field("a")?).ok());
                    let opened = sealed.and_then(|sealed| {
                        ring(asked.token).open(Purpose::Grant, shown.family.as_bytes(), sealed).ok()
                    });
                    return opened.and_then(|plain| String::from_utf8(plain).ok()).ok_or(RenewError::Invalid);
                }
                // What was read first has changed since: look again.
                Some(of) if of >= number => {}
                _ => {
                    tracing::warn!("a refresh token was used again: its family of tokens ends");
                    self.end(&shown.family).await.map_err(|_| RenewError::Away)?;
                    return Err(RenewError::Invalid);
                }
            }
        }
        Err(RenewError::Away)
    }

    /// Ends a family: its refresh tokens, and its access tokens on all pods within a second. `Ok` where there is none, too.
    pub async fn end(&self, family: &str) -> Result<(), StoreAway> {
        // What it gave before may have been given for longer than is configured now.
        let until = now() + LONGEST_ACCESS + SKEW;
        let revoked = self.revoked.revoke(Revocable::Family(family), until).await;
        let key = key(family);
        let record = self.store.get(key.clone()).await.map_err(|_| StoreAway)?;
        let kept = record.as_ref().and_then(|record| self.open(family, record.field("d")?));
        let writes = vec![
            (answered(family), Write::Drop),
            (key.clone(), Write::Drop),
            (key.clone(), Write::set("ended", "1")),
            (key, Write::Live(REMEMBERED)),
        ];
        self.store.commit(vec![], writes, Sure::Replicas).await.map_err(|_| StoreAway)?;
        // Its refresh tokens are gone even where its access tokens are not known to be.
        revoked.map_err(|_| StoreAway)?;
        match kept {
            Some(kept) => self.holdings.remove(&kept.principal(), Kind::Family, family).await,
            None => Ok(()),
        }
    }

    /// Ends the family that a refresh token is of, if it is this client's (RFC 7009 2.1).
    pub async fn end_of(&self, token: &str, client: &str) -> Result<(), StoreAway> {
        let Some(shown) = Token::read(token) else { return Ok(()) };
        let record = self.store.get(key(&shown.family)).await.map_err(|_| StoreAway)?;
        let kept = record.as_ref().and_then(|record| self.open(&shown.family, record.field("d")?));
        match kept.filter(|kept| shown.is_of(&kept.secret) && kept.grant.client == client) {
            Some(_) => self.end(&shown.family).await,
            None => Ok(()),
        }
    }

    /// Ends all families of a principal that are known to be theirs.
    pub async fn end_all(&self, of: &Principal) -> Result<(), StoreAway> {
        for family in self.holdings.list(of, Kind::Family).await? {
            self.end(&family.id).await?;
        }
        Ok(())
    }

    /// How long a family lives from now on, unless it is used.
    fn life(&self, kept: &Kept) -> Duration {
        let end = kept.begun.saturating_add(self.lives.longest.as_secs());
        self.lives.refresh.min(Duration::from_secs(end.saturating_sub(now())))
    }

    async fn list(&self, family: &str, kept: &Kept) -> Result<(), StoreAway> {
        let Grant { name, host, resource, scope, .. } = &kept.grant;
        let about = json!({"name": name, "host": host, "resource": resource, "scope": scope});
        self.holdings.add(&kept.principal(), Kind::Family, family, about, self.life(kept)).await
    }

    fn seal(&self, family: &str, kept: &Kept) -> String {
        let plain = serde_json::to_vec(kept).expect("a family is a map of plain values");
        self.keyring.seal(Purpose::Grant, family.as_bytes(), &plain)
    }

    fn open(&self, family: &str, sealed: &[u8]) -> Option<Kept> {
        let sealed = std::str::from_utf8(sealed).ok()?;
        let plain = self.keyring.open(Purpose::Grant, family.as_bytes(), sealed).ok()?;
        serde_json::from_slice(&plain).ok()
    }
}

impl Kept {
    fn principal(&self) -> Principal {
        let person = &self.grant.person;
        Principal::minted(&person.tenant, &self.issuer, &person.subject)
    }
}

impl Token {
    fn read(text: &str) -> Option<Token> {
        let bytes = (text.len() < 256).then(|| URL_SAFE_NO_PAD.decode(text).ok())??;
        let (family, rest) = bytes.split_at_checked(NAME)?;
        let (number, mark) = rest.split_first_chunk::<4>()?;
        let family = URL_SAFE_NO_PAD.encode(family);
        Some(Token { family, number: u32::from_be_bytes(*number), mark: mark.try_into().ok()? })
    }

    /// Whether it was given out here, in constant time.
    fn is_of(&self, secret: &str) -> bool {
        hmac::verify(&mac(secret), &marked(&self.family, self.number), &self.mark).is_ok()
    }
}

fn write(family: &str, number: u32, secret: &str) -> String {
    let text = marked(family, number);
    let mark = hmac::sign(&mac(secret), &text);
    URL_SAFE_NO_PAD.encode([&text, mark.as_ref()].concat())
}

fn marked(family: &str, number: u32) -> Vec<u8> {
    let name = URL_SAFE_NO_PAD.decode(family).expect("families are named by us, in base64");
    [&name[..], &number.to_be_bytes()].concat()
}

fn mac(secret: &str) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes())
}

/// What opens for who has the token alone.
fn ring(token: &str) -> Keyring {
    let material = KeyMaterial::from_bytes(digest_text(token.as_bytes()).into_bytes());
    Keyring::new(vec![material.expect("a digest has 43 characters")]).expect("one key is a ring")
}

/// The scope of new tokens: what was granted, or less (RFC 6749 6).
fn narrowed<'a>(grant: &'a Grant, asked: Option<&'a str>) -> Result<&'a str, RenewError> {
    let Some(asked) = asked else { return Ok(&grant.scope) };
    let words = || asked.split(' ').filter(|word| !word.is_empty() && *word != super::OFFLINE);
    let all = words().all(|word| grant.scope.split(' ').any(|held| held == word));
    match all {
        true if words().next().is_none() => Ok(&grant.scope),
        true => Ok(asked),
        false => Err(RenewError::Scope),
    }
}

fn key(family: &str) -> Key {
    Key::new(format!("oauth:f:{family}"), "")
}

/// The answer that is kept for the refresh token before.
fn answered(family: &str) -> Key {
    Key::new(format!("oauth:f:{family}"), "a")
}

#[cfg(test)]
mod tests;
