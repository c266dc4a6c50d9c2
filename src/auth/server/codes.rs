//! Authorization codes: single use over all pods, for one minute, bound to what they were given for. One that is shown again
//! names the family of tokens that came of it.

use super::Grant;
use crate::auth::{digest_text, random_text};
use crate::mcp::StoreAway;
use crate::sealing::{Keyring, Purpose};
use crate::store::{Check, Commit, Key, Store, Sure, Write};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// How long a code can be used.
const LIFE: Duration = Duration::from_secs(60);
/// How long it is known that it was.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// The codes.
pub struct Codes {
    store: Arc<dyn Store>,
    keyring: Arc<Keyring>,
}

#[derive(Serialize, Deserialize)]
struct Given {
    grant: Grant,
    redirect: String,
    challenge: String,
}

/// What became of a code that was shown.
pub enum Shown {
    /// It is used now. The family's name is its tokens'.
    Used { grant: Box<Grant>, family: String },
    /// It was used before, and gave tokens of this family.
    Again { family: String },
    /// It is none, too old, or not for who shows it.
    Foreign,
}

impl Codes {
    pub fn new(store: Arc<dyn Store>, keyring: Arc<Keyring>) -> Codes {
        Codes { store, keyring }
    }

    /// A code for what was granted, for a client that knows the challenge's verifier.
    pub async fn give(&self, grant: Grant, redirect: &str, challenge: &str) -> Result<String, StoreAway> {
        let code = random_text();
        let digest = digest_text(code.as_bytes());
        let given = Given { grant, redirect: redirect.to_owned(), challenge: challenge.to_owned() };
        let plain = serde_json::to_vec(&given).expect("a code's content is a map of plain values");
        let sealed = self.keyring.seal(Purpose::Grant, digest.as_bytes(), &plain);
        let key = key(&digest);
        let writes = vec![(key.clone(), Write::set("d", sealed)), (key, Write::Live(LIFE))];
        self.store.commit(vec![], writes, Sure::Replicas).await.map_err(|_| StoreAway)?;
        Ok(code)
    }

    /// Shows a code. Of any number that show it at once, on any pods, one uses it. It is not used up by who cannot prove that it is
    /// theirs: a thief without the verifier gains nothing, and ends nobody's login.
    pub async fn show(
        &self,
        code: &str,
        client: &str,
        redirect: Option<&str>,
        verifier: &str,
    ) -> Result<Shown, StoreAway> {
        let digest = digest_text(code.as_bytes());
        let key = key(&digest);
        let record = self.store.get(key.clone()).await.map_err(|_| StoreAway)?;
        let Some(record) = record else { return Ok(Shown::Foreign) };
        let given = record.field("d").and_then(|sealed| {
            let sealed = std::str::from_utf8(sealed).ok()?;
            let plain = self.keyring.open(Purpose::Grant, digest.as_bytes(), sealed).ok()?;
            serde_json::from_slice::<Given>(&plain).ok()
        });
        let Some(Given { grant, redirect: bound, challenge }) = given else { return Ok(Shown::Foreign) };
        // OAuth 2.1 clients leave the address out: PKCE binds the code already. Where it is given, it must be the one.
        let whose = grant.client == client
            && redirect.is_none_or(|redirect| redirect == bound)
            && is_verifier(verifier)
            && verify_slices_are_equal(digest_text(verifier.as_bytes()).as_bytes(), challenge.as_bytes())
                .is_ok();
        if !whose {
            return Ok(Shown::Foreign);
        }
        let family = random_text();
        let checks = vec![(key.clone(), Check::Rev(record.rev)), (key.clone(), Check::no_field("used"))];
        let writes =
            vec![(key.clone(), Write::set("used", family.clone())), (key.clone(), Write::Live(REMEMBERED))];
        match self.store.commit(checks, writes, Sure::Replicas).await.map_err(|_| StoreAway)? {
            Commit::Done(_) => Ok(Shown::Used { grant: Box::new(grant), family }),
            Commit::Failed { .. } => {
                let record = self.store.get(key).await.map_err(|_| StoreAway)?;
                let used = record.as_ref().and_then(|record| record.field("used"));
                let used = used.and_then(|family| String::from_utf8(family.to_vec()).ok());
                Ok(used.map_or(Shown::Foreign, |family| Shown::Again { family }))
            }
        }
    }
}

/// 43 to 128 unreserved characters (RFC 7636 4.1).
fn is_verifier(text: &str) -> bool {
    (43..=128).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~'))
}

fn key(digest: &str) -> Key {
    Key::new(format!("oauth:c:{digest}"), "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Memory;

    fn grant() -> Grant {
        serde_json::from_value(serde_json::json!({
            "client": "c", "name": "C", "host": "h", "resource": "r", "scope": "", "refresh": true,
            "person": {"subject": "s", "tenant": "t", "name": "n", "claims": {}},
        }))
        .unwrap()
    }

    #[tokio::test]
    async fn a_code_is_used_once_by_whom_it_was_given_to_and_remembers_what_it_gave() {
        let codes = Codes::new(Arc::new(Memory::new(1 << 20)), Arc::new(Keyring::random()));
        let verifier = random_text();
        let challenge = digest_text(verifier.as_bytes());
        let code = codes.give(grant(), "https://a.example/cb", &challenge).await.unwrap();
        let show = async |code: &str, client: &str, redirect: Option<&'static str>, verifier: &str| {
            codes.show(code, client, redirect, verifier).await.unwrap()
        };
        let right = Some("https://a.example/cb");
        assert!(matches!(show("other", "c", right, &verifier).await, Shown::Foreign));
        assert!(matches!(show(&code, "d", right, &verifier).await, Shown::Foreign));
        assert!(matches!(show(&code, "c", Some("https://a.example/cb/"), &verifier).await, Shown::Foreign));
        assert!(matches!(show(&code, "c", right, &random_text()).await, Shown::Foreign));
        assert!(matches!(show(&code, "c", right, &challenge).await, Shown::Foreign));
        let Shown::Used { family, .. } = show(&code, "c", right, &verifier).await else { panic!("not used") };
        let Shown::Again { family: again } = show(&code, "c", right, &verifier).await else {
            panic!("not again")
        };
        assert_eq!(family, again);
    }
}
