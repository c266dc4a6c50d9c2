//! Values that travel through clients, or rest in a store, so that only this gateway can read or make them: cursors,
//! request state, event and request ids, tokens at rest. It must not know what is in them.

mod key;

pub use key::{KeyError, KeyMaterial, read_base64};

use aws_lc_rs::aead::{Aad, NONCE_LEN, Nonce};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use self::key::{Id, Key};

/// What a sealed value is for. Each purpose has keys of its own, so nothing sealed for one opens for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A page of a list.
    Cursor,
    /// `requestState` of a result that requires input.
    RequestState,
    /// The id of an event in an SSE stream, which comes back as `Last-Event-ID`.
    EventId,
    /// The id of a request that we send to a client.
    RequestId,
    /// A task that goes on after its call.
    TaskHandle,
    /// A registered client's id, which holds its registration.
    ClientId,
    /// A link that connects a user's account to an upstream.
    ConnectLink,
    /// A secret at rest: an upstream's token.
    Vault,
    /// A call handed from pod to pod.
    Internal,
    /// A user's approval of a call, asked for or given.
    Approval,
    /// A browser that is logged in, and what it was asked.
    Browser,
    /// What our authorisation server keeps of codes and refresh tokens.
    Grant,
}

impl Purpose {
    /// All purposes, in the order of their declaration.
    pub const ALL: [Purpose; 12] = [
        Purpose::Cursor,
        Purpose::RequestState,
        Purpose::EventId,
        Purpose::RequestId,
        Purpose::TaskHandle,
        Purpose::ClientId,
        Purpose::ConnectLink,
        Purpose::Vault,
        Purpose::Internal,
        Purpose::Approval,
        Purpose::Browser,
        Purpose::Grant,
    ];

    /// The name that keys are derived by. What was sealed under a name opens only while the name stays.
    fn label(self) -> &'static str {
        match self {
            Purpose::Cursor => "cursor",
            Purpose::RequestState => "request-state",
            Purpose::EventId => "event-id",
            Purpose::RequestId => "request-id",
            Purpose::TaskHandle => "task-handle",
            Purpose::ClientId => "client-id",
            Purpose::ConnectLink => "connect-link",
            Purpose::Vault => "vault",
            Purpose::Internal => "internal",
            Purpose::Approval => "approval",
            Purpose::Browser => "browser",
            Purpose::Grant => "grant",
        }
    }
}

/// Why a sealed value did not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// Not of the form that sealing gives: never sealed here, or cut short.
    #[error("not a sealed value")]
    Malformed,
    /// Sealed with a key that is not on the ring: it was retired, or has not reached this pod yet.
    #[error("sealed with an unknown key")]
    UnknownKey,
    /// The key is known, but did not seal this for this purpose and associated data.
    #[error("not sealed by us for this")]
    Forged,
}

/// The keys of a gateway: the first seals, all open. To rotate, add the new key last on all pods, then put it first.
///
/// A sealed value is URL-safe base64 without padding of
///
/// ```text
/// version (1, = 1) | key id (4) | nonce (12) | ciphertext (as long as the plain text) | tag (16)
/// ```
///
/// by AES-256-GCM-SIV (RFC 8452): random nonces may repeat after very many seals, and then reveal no more than that two
/// equal values are equal. The head and the caller's associated data are authenticated with it.
pub struct Keyring {
    keys: Vec<Key>,
}

const VERSION: u8 = 1;
const HEAD: usize = 1 + size_of::<Id>();
const TAG: usize = 16;
/// What sealing adds to a value, in bytes before base64.
const OVERHEAD: usize = HEAD + NONCE_LEN + TAG;

impl Keyring {
    /// The first key seals, all open. Errors: no key at all, or one key twice.
    pub fn new(materials: Vec<KeyMaterial>) -> Result<Self, KeyError> {
        let mut keys: Vec<Key> = Vec::with_capacity(materials.len());
        for material in &materials {
            let key = Key::derive(material);
            if keys.iter().any(|other| other.id == key.id) {
                return Err(KeyError::Twice);
            }
            keys.push(key);
        }
        if keys.is_empty() { Err(KeyError::None) } else { Ok(Keyring { keys }) }
    }

    /// A ring of one key that nobody else has and that ends with the process. For a single pod with the memory store only.
    pub fn random() -> Self {
        Keyring { keys: vec![Key::derive(&KeyMaterial::random())] }
    }

    /// Seals `plain` for a purpose and for exactly this `aad`: what is not worth carrying but must be the same when it is
    /// opened, such as the principal. Different values for one purpose should differ in form, or in `aad`.
    pub fn seal(&self, purpose: Purpose, aad: &[u8], plain: &[u8]) -> String {
        let key = self.keys.first().expect("a ring has a key: `new` refuses an empty one");
        let mut nonce = [0; NONCE_LEN];
        aws_lc_rs::rand::fill(&mut nonce)
            .expect("the system's random source does not fail once it is seeded");
        let mut sealed = Vec::with_capacity(plain.len() + OVERHEAD);
        sealed.push(VERSION);
        sealed.extend_from_slice(&key.id);
        let aad = bound(&sealed, aad);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(plain);
        let tag = key
            .of(purpose)
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                aad,
                &mut sealed[HEAD + NONCE_LEN..],
            )
            .expect("sealing fails only beyond 64 GiB");
        sealed.extend_from_slice(tag.as_ref());
        URL_SAFE_NO_PAD.encode(sealed)
    }

    /// The plain text of what [`Keyring::seal`] sealed for this purpose and `aad`, with any key of the ring. Bounding the
    /// length of `sealed` is the caller's.
    pub fn open(&self, purpose: Purpose, aad: &[u8], sealed: &str) -> Result<Vec<u8>, SealError> {
        let mut sealed = URL_SAFE_NO_PAD.decode(sealed).map_err(|_| SealError::Malformed)?;
        if sealed.len() < OVERHEAD || sealed[0] != VERSION {
            return Err(SealError::Malformed);
        }
        let (head, body) = sealed.split_at_mut(HEAD);
        let key = self.keys.iter().find(|key| head[1..] == key.id).ok_or(SealError::UnknownKey)?;
        let (nonce, body) = body.split_at_mut(NONCE_LEN);
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| SealError::Malformed)?;
        let opened = key.of(purpose).open_in_place(nonce, bound(head, aad), body);
        let plain = opened.map_err(|_| SealError::Forged)?.len();
        sealed.truncate(HEAD + NONCE_LEN + plain);
        sealed.drain(..HEAD + NONCE_LEN);
        Ok(sealed)
    }

    /// Whether a value was sealed with the key that seals now; if not, and it rests somewhere, it is to be sealed again.
    /// Says nothing about whether it opens.
    pub fn is_current(&self, sealed: &str) -> bool {
        let head = URL_SAFE_NO_PAD.decode(sealed).ok();
        let id = head.as_deref().and_then(|head| head.get(1..HEAD));
        self.keys.first().is_some_and(|key| id == Some(&key.id[..]))
    }
}

/// The head has one length, so no other head and associated data run together to the same bytes.
fn bound(head: &[u8], aad: &[u8]) -> Aad<Vec<u8>> {
    Aad::from([head, aad].concat())
}

#[cfg(test)]
mod tests;
