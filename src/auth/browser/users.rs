//! People by name and password, from the configuration: for trying the gateway, and where there is no provider.

use super::Person;
use crate::auth::digest_text;
use crate::store::{Grant, Key, Rate, Store};
use aws_lc_rs::pbkdf2;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use secrecy::{ExposeSecret as _, SecretString};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Rounds of a new hash (OWASP's advice for PBKDF2 with HMAC-SHA-256).
const ROUNDS: u32 = 600_000;
/// What a hash in the configuration may cost at most, and least.
const ROUNDS_ADMITTED: std::ops::RangeInclusive<u32> = 10_000..=10_000_000;
/// Tries of one name: so many at once, then one more each.
const TRIES: Rate = Rate { every: Duration::from_secs(10), burst: 10, cost: 1 };
/// Passwords that are looked at in one pod at one time: each takes tens of milliseconds of a core, and who asks need not be anyone.
const AT_ONCE: usize = 2;
/// How long one waits for its turn, and when it is worth another try after that.
const TURN: Duration = Duration::from_secs(2);
/// Longest password, in bytes.
const LONGEST: usize = 1024;

/// What is wrong with a configured hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is no hash of `plasm-mcp password`: $pbkdf2-sha256$i=ROUNDS$SALT$HASH")]
pub struct PasswordError;

/// A configured person.
pub struct User {
    pub person: Person,
    hash: Hash,
}

struct Hash {
    rounds: NonZeroU32,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

/// All configured people.
pub struct Users {
    users: Arc<[User]>,
    /// What a try for an unknown name is held against, so that it takes as long.
    nobody: Hash,
    turns: Arc<Semaphore>,
}

/// Why a password was not looked at.
pub enum NotNow {
    /// Too many tries for this name, or in all.
    Often(Duration),
    /// The store is out of reach.
    Away,
}

impl User {
    /// `hash` is the output of [`hash_password`].
    pub fn new(person: Person, hash: &SecretString) -> Result<User, PasswordError> {
        Ok(User { person, hash: Hash::read(hash.expose_secret()).ok_or(PasswordError)? })
    }
}

impl Users {
    pub fn new(users: Vec<User>) -> Users {
        let rounds = users.iter().map(|user| user.hash.rounds).max();
        let rounds = rounds.unwrap_or(NonZeroU32::new(ROUNDS).expect("it is not zero"));
        Users {
            users: users.into(),
            nobody: Hash { rounds, salt: vec![0; 16], hash: vec![0; 32] },
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// The person whose name and password these are.
    pub async fn check(
        &self,
        store: &Arc<dyn Store>,
        name: &str,
        password: &str,
    ) -> Result<Option<Person>, NotNow> {
        if name.is_empty() || password.len() > LONGEST {
            return Ok(None);
        }
        let key = Key::new(format!("oauth:tries:{}", digest_text(name.as_bytes())), "");
        match store.admit(key, TRIES).await {
            Ok(Grant::Yes { .. }) => {}
            Ok(Grant::No { after }) => return Err(NotNow::Often(after)),
            Err(_) => return Err(NotNow::Away),
        }
        let turn = tokio::time::timeout(TURN, self.turns.clone().acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(NotNow::Often(TURN)) };
        let (users, password) = (self.users.clone(), SecretString::from(password.to_owned()));
        let at = users.iter().position(|user| user.person.subject == name);
        let nobody = self.nobody.copy();
        // Tens of milliseconds of arithmetic: not among the tasks that serve calls.
        let checked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let user = at.map(|at| &users[at]);
            let right = user.map_or(&nobody, |user| &user.hash).is_of(password.expose_secret());
            user.filter(|_| right).map(|user| user.person.clone())
        });
        checked.await.map_err(|_| NotNow::Away)
    }
}

impl Hash {
    fn read(text: &str) -> Option<Hash> {
        let mut parts = text.trim().strip_prefix("$pbkdf2-sha256$")?.split('$');
        let rounds: u32 = parts.next()?.strip_prefix("i=")?.parse().ok()?;
        let salt = STANDARD_NO_PAD.decode(parts.next()?).ok()?;
        let hash = STANDARD_NO_PAD.decode(parts.next()?).ok()?;
        let whole = parts.next().is_none() && salt.len() >= 8 && hash.len() == 32;
        let rounds = NonZeroU32::new(rounds).filter(|rounds| ROUNDS_ADMITTED.contains(&rounds.get()))?;
        whole.then_some(Hash { rounds, salt, hash })
    }

    /// Compares in constant time.
    fn is_of(&self, password: &str) -> bool {
        let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::verify(algorithm, self.rounds, &self.salt, password.as_bytes(), &self.hash).is_ok()
    }

    fn copy(&self) -> Hash {
        Hash { rounds: self.rounds, salt: self.salt.clone(), hash: self.hash.clone() }
    }
}

/// The hash of a password, for the configuration.
pub fn hash_password(password: &SecretString) -> String {
    let (mut salt, mut hash) = ([0; 16], [0; 32]);
    aws_lc_rs::rand::fill(&mut salt).expect("the system's random source does not fail once it is seeded");
    let rounds = NonZeroU32::new(ROUNDS).expect("it is not zero");
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, &salt, password.expose_secret().as_bytes(), &mut hash);
    format!("$pbkdf2-sha256$i={ROUNDS}${}${}", STANDARD_NO_PAD.encode(salt), STANDARD_NO_PAD.encode(hash))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Memory;

    fn users() -> Users {
        let person = Person {
            subject: "alice".into(),
            tenant: "acme".into(),
            name: "Alice".into(),
            claims: Default::default(),
        };
        let hash = hash_password(&SecretString::from("correct horse".to_owned()));
        Users::new(vec![User::new(person, &SecretString::from(hash)).unwrap()])
    }

    #[tokio::test]
    async fn a_password_opens_its_own_name_alone_and_not_by_trying() {
        let store: Arc<dyn Store> = Arc::new(Memory::new(1 << 20));
        let users = users();
        let check = async |name: &str, password: &str| users.check(&store, name, password).await;
        assert_eq!(check("alice", "correct horse").await.ok().flatten().unwrap().tenant, "acme");
        for (name, password) in [("alice", "wrong"), ("alice", ""), ("bob", "correct horse"), ("", "")] {
            assert!(matches!(check(name, password).await, Ok(None)), "{name} {password}");
        }
        let mut refused = false;
        for _ in 0..10 {
            refused |= matches!(check("alice", "guess").await, Err(NotNow::Often(_)));
        }
        assert!(refused && matches!(check("alice", "correct horse").await, Err(NotNow::Often(_))));
        assert!(matches!(check("bob", "x").await, Ok(None)));
    }

    #[test]
    fn what_is_no_hash_is_refused() {
        for bad in [
            "",
            "secret",
            "$pbkdf2-sha256$i=1$AAAAAAAAAAAAAAAAAAAAAA$AAAA",
            "$2b$10$abcdefghijklmnopqrstuv",
            "$pbkdf2-sha256$i=600000$AAAAAAAAAAAAAAAAAAAAAA",
        ] {
            assert!(Hash::read(bad).is_none(), "{bad}");
        }
    }
}
