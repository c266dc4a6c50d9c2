//! The credential that a request bears to an upstream, asked for where it is sent. What credentials are made of, and where
//! they rest, is behind [`Credentials`]; here stands only when one is asked for and what a refusal of it leads to.

use super::transport::TransportError;
use crate::mcp::Access;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, HeaderValue, StatusCode};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The credentials for one upstream.
pub trait Credentials: fmt::Debug + Send + Sync + 'static {
    /// Whether each caller has one of their own: what comes by it is that caller's alone, and never cached for others.
    fn personal(&self) -> bool;

    /// The one of a caller, or (`None`) of the gateway itself, which has none where they are personal.
    fn of(&self, access: Option<&Arc<Access>>) -> Option<Bearer>;
}

/// One caller's credential, or the gateway's own. Cheap to clone.
pub type Bearer = Arc<dyn Bearing>;

pub trait Bearing: fmt::Debug + Send + Sync + 'static {
    /// What a request is to bear now; `None`: it is sent without, for nobody has said yet that it needs any.
    fn token(self: Arc<Self>) -> BoxFuture<'static, Result<Option<Token>, Lack>>;

    /// The upstream refused a request for its credential: another that is worth one more try, or why there is none.
    fn refused(self: Arc<Self>, refusal: Refusal) -> BoxFuture<'static, Result<Token, Lack>>;

    /// Where the caller connects their account, were they to do it now; `None` where that is not theirs to do.
    fn link(&self) -> Option<Arc<str>>;
}

/// A value of `Authorization`.
#[derive(Clone)]
pub struct Token {
    /// Marked as sensitive.
    pub header: HeaderValue,
    /// Tells this token from any other of its caller.
    pub mark: u64,
    /// Which of a caller's accounts it is of, where they have accounts: another after they connected anew.
    pub account: Option<u64>,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// How an upstream refused a request for its credential (RFC 6750 3).
#[derive(Debug)]
pub struct Refusal {
    /// What the request bore; `None`: nothing.
    pub used: Option<Token>,
    /// 401, or 403 with `insufficient_scope`.
    pub status: u16,
    /// The values of `WWW-Authenticate`, as the upstream wrote them.
    pub challenges: Vec<String>,
    /// Whether this was the second try already.
    pub again: bool,
}

/// Why a request goes without the credential that it needs. The texts name nothing that is secret.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Lack {
    /// The caller has to connect an account, there.
    #[error("the caller has not connected an account")]
    Connect { url: Arc<str> },
    /// The caller's account is connected with all that was asked for, and is refused this all the same.
    #[error("the connected account may not do this")]
    Insufficient,
    /// Our own credential is refused, or we are not given one.
    #[error("the gateway's credential is refused")]
    Bad,
    /// Whoever gives credentials does not answer.
    #[error("no credential is to be had: {0}")]
    Unreachable(Cow<'static, str>),
    #[error("the state store is out of reach")]
    StoreAway,
    /// The upstream's session is of another account than the caller has connected by now.
    #[error("the session is of another account")]
    OtherAccount,
}

/// The tries of one request with its credential: one, and one more where a refusal can be mended. A request that is refused
/// so has not begun (RFC 9110 15.5.2), hence anything may be sent again.
pub struct Tries<'a> {
    bearer: &'a Bearer,
    used: Option<Token>,
    again: bool,
}

impl<'a> Tries<'a> {
    /// Errors: there is no credential, and nothing is to be sent.
    pub async fn begin(bearer: &'a Bearer) -> Result<Tries<'a>, TransportError> {
        let used = bearer.clone().token().await.map_err(lacking)?;
        Ok(Tries { bearer, used, again: false })
    }

    /// What the request is to bear this time, in place of any that it bore before.
    pub fn header(&self) -> Option<HeaderValue> {
        self.used.as_ref().map(|token| token.header.clone())
    }

    /// How the answer refuses the credential; `None`: it does not.
    pub fn refusal(&self, status: StatusCode, headers: &HeaderMap) -> Option<Refusal> {
        let status = status.as_u16();
        if !matches!(status, 401 | 403) {
            return None;
        }
        let challenges = challenges(headers);
        let scope = challenges.iter().any(|challenge| challenge.contains("insufficient_scope"));
        (status == 401 || scope).then(|| Refusal {
            used: self.used.clone(),
            status,
            challenges,
            again: self.again,
        })
    }

    /// Makes ready for the next try. Errors: there is none.
    pub async fn mend(&mut self, refusal: Refusal) -> Result<(), TransportError> {
        let token = self.bearer.clone().refused(refusal).await.map_err(lacking)?;
        self.used = Some(token);
        match std::mem::replace(&mut self.again, true) {
            true => Err(TransportError::Credential(Lack::Bad)),
            false => Ok(()),
        }
    }
}

fn lacking(lack: Lack) -> TransportError {
    match lack {
        // It is opened anew.
        Lack::OtherAccount => TransportError::SessionGone,
        lack => TransportError::Credential(lack),
    }
}

fn challenges(map: &HeaderMap) -> Vec<String> {
    let texts = map.get_all(WWW_AUTHENTICATE).iter();
    texts.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
}

/// A credential as it is borne in a session that was opened with one account, or with none: with no other.
#[derive(Debug)]
pub struct InSession {
    pub bearer: Bearer,
    pub account: Option<u64>,
}

impl InSession {
    fn checked(&self, token: Option<Token>) -> Result<Option<Token>, Lack> {
        match token.as_ref().and_then(|token| token.account) == self.account {
            true => Ok(token),
            false => Err(Lack::OtherAccount),
        }
    }
}

impl Bearing for InSession {
    fn token(self: Arc<Self>) -> BoxFuture<'static, Result<Option<Token>, Lack>> {
        async move { self.checked(self.bearer.clone().token().await?) }.boxed()
    }

    fn refused(self: Arc<Self>, refusal: Refusal) -> BoxFuture<'static, Result<Token, Lack>> {
        async move {
            let token = self.bearer.clone().refused(refusal).await?;
            self.checked(Some(token))?.ok_or(Lack::Bad)
        }
        .boxed()
    }

    fn link(&self) -> Option<Arc<str>> {
        self.bearer.link()
    }
}
