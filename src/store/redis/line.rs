//! A connection (to a cluster: one to each master) and the question on it: with one time limit, a bound on how many wait,
//! and no second attempt of what may have been done.

use std::sync::Arc;
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::ClientLike as _;
use fred::prelude::{ErrorKind, Options, Server};
use fred::types::{ClusterHash, CustomCommand, Value};
use fred::util::redis_keyslot;
use tokio::sync::Semaphore;

use crate::store::{Key, StoreError};

/// Questions that wait on one line for their answers at most; one more is refused at once.
const WAITING: usize = 10_000;
/// What a question is given beyond its time limit, which the connection itself watches, before it is given up here.
const GRACE: Duration = Duration::from_millis(200);

#[derive(Clone)]
pub(super) struct Line {
    pub(super) client: Client,
    places: Arc<Semaphore>,
    /// How long one answer may take.
    pub(super) within: Duration,
}

/// Why a question has no answer.
#[derive(Debug, Clone)]
pub(super) enum Trouble {
    /// Redis said so, beginning with the error's code.
    Said(String),
    /// Not reached, not in time, or too many waited.
    Away,
}

impl Trouble {
    /// What it means for a question about `key`.
    pub(super) fn of(self, key: &Key) -> StoreError {
        match self {
            Trouble::Said(said) if said.starts_with("OOM") => StoreError::Full,
            Trouble::Said(said) if said.starts_with("WRONGTYPE") => StoreError::Kind(key.clone()),
            // Loading, failing over, read-only, or a right that was taken away: nobody can go on, and it is worth a line.
            Trouble::Said(said) => {
                tracing::warn!(error = said, "Redis refuses");
                StoreError::Away
            }
            Trouble::Away => StoreError::Away,
        }
    }
}

/// Where in a cluster a command goes.
#[derive(Clone)]
pub(super) enum To {
    Slot(u16),
    Node(Server),
}

/// The slot of a key or channel.
pub(super) fn slot(name: &str) -> u16 {
    redis_keyslot(name.as_bytes())
}

impl From<u16> for To {
    fn from(slot: u16) -> Self {
        To::Slot(slot)
    }
}

impl Line {
    pub(super) fn new(client: Client, within: Duration) -> Self {
        Line { client, places: Arc::new(Semaphore::new(WAITING)), within }
    }

    /// One command and its answer.
    pub(super) async fn ask(
        &self,
        command: &'static str,
        to: impl Into<To>,
        args: Vec<Value>,
    ) -> Result<Value, Trouble> {
        self.ask_within(command, to, args, Duration::ZERO).await
    }

    /// As [`Line::ask`], of a command that itself may wait for `block`, unless that is zero.
    pub(super) async fn ask_within(
        &self,
        command: &'static str,
        to: impl Into<To>,
        args: Vec<Value>,
        block: Duration,
    ) -> Result<Value, Trouble> {
        let Ok(_place) = self.places.try_acquire() else { return Err(Trouble::Away) };
        let (slot, node) = match to.into() {
            To::Slot(slot) => (slot, None),
            To::Node(node) => (0, Some(node)),
        };
        let within = self.within + block;
        // Failing fast, so that a command in flight on a connection that closes is not sent a second time on the next; the
        // attempts are those of redirected commands, which were not done.
        let options = Options {
            timeout: Some(within),
            max_attempts: Some(3),
            fail_fast: true,
            cluster_node: node,
            ..Options::default()
        };
        let command = CustomCommand::new_static(command, ClusterHash::Custom(slot), !block.is_zero());
        let client = self.client.with_options(&options);
        let asked = client.custom::<Value, Value>(command, args);
        match tokio::time::timeout(within + GRACE, asked).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(trouble(&error)),
            Err(_) => Err(Trouble::Away),
        }
    }

    /// All servers that this line has a connection to.
    pub(super) fn nodes(&self) -> Vec<Server> {
        self.client.active_connections()
    }
}

/// Redis's errors begin with a code in capitals; all others are the connection's.
fn trouble(error: &fred::error::Error) -> Trouble {
    let code = error.details().split(' ').next().unwrap_or_default();
    let coded = !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_uppercase());
    match error.kind() {
        ErrorKind::IO | ErrorKind::Timeout | ErrorKind::Canceled | ErrorKind::Backpressure => Trouble::Away,
        _ if coded => Trouble::Said(error.details().to_owned()),
        kind => {
            tracing::debug!(?kind, error = error.details(), "no answer of Redis");
            Trouble::Away
        }
    }
}
