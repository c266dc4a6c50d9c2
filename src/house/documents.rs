//! Documents that a person names at the command line, such as the description of an API: fetched, whole, within bounds.

use super::outbound;
use crate::config::Config;
use crate::egress::{Bounds, FetchError, Named};
use bytes::Bytes;
use http::{Request, StatusCode, header};
use std::time::Duration;
use url::Url;

/// Longest time for one answer.
const WITHIN: Duration = Duration::from_secs(60);
/// Most redirects that are followed.
const MOST_REDIRECTS: usize = 5;

/// Why there is no document.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    #[error("{0} cannot be fetched: {1}")]
    Fetch(Url, FetchError),
    #[error("{0} answered {1}")]
    Status(Url, StatusCode),
    #[error("{0} leads on and on")]
    Redirects(Url),
    #[error("{0} is no text in UTF-8")]
    NoText(Url),
    #[error("no connections can be made: {0}")]
    Start(String),
}

/// The text at that address, of at most so many bytes, and the address that gave it. Where it redirects to is a stranger's to
/// say: from there on public addresses alone are reached.
pub async fn document(url: &Url, largest: usize) -> Result<(String, Url), DocumentError> {
    let egress =
        outbound::egress(&Config::default()).map_err(|error| DocumentError::Start(error.to_string()))?;
    let (mut at, mut named) = (url.clone(), Named::ByUs);
    for _ in 0..=MOST_REDIRECTS {
        let mut plain = at.clone();
        plain.set_fragment(None);
        let request = Request::get(plain.as_str())
            .header(header::ACCEPT, "application/json, application/yaml, */*;q=0.5")
            .header(header::USER_AGENT, "plasm-mcp")
            .body(Bytes::new())
            .map_err(|_| DocumentError::Fetch(at.clone(), FetchError::Url))?;
        let answer = egress.send_within(request, named, Bounds { within: WITHIN, largest }).await;
        let answer = answer.map_err(|error| DocumentError::Fetch(at.clone(), error))?;
        let to = answer.headers.get(header::LOCATION).filter(|_| answer.status.is_redirection());
        if let Some(to) = to.and_then(|to| at.join(to.to_str().ok()?).ok()) {
            // What a person named may send to another path of its own.
            named = if to.origin() == at.origin() { named } else { Named::ByOthers };
            at = to;
            continue;
        }
        if !answer.status.is_success() {
            return Err(DocumentError::Status(at, answer.status));
        }
        let text = String::from_utf8(answer.body.into()).map_err(|_| DocumentError::NoText(at.clone()))?;
        return Ok((text, at));
    }
    Err(DocumentError::Redirects(url.clone()))
}
