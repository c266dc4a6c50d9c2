//! One request of a source over HTTP: logged in, within its hosts, time and size; redirects of reads followed to where the
//! catalog allows; reads made again where that may help.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};
use serde_json::Value as Json;
use tokio::time::{Instant, sleep};
use url::Url;

use super::{
    Ask, SourceError, SourceErrorKind,
    answer::{self, failure, is_write},
    login::{Bears, Login, Refused, same_origin},
    request::{self, Request, unfit},
};
use crate::{
    egress::{Answer, Bounds, Egress, FetchError, Named},
    execute::catalog::{Limits, Operation, Source},
};

/// Longest time and largest answer of a source whose catalog does not say.
const WITHIN: Duration = Duration::from_secs(30);
const LARGEST: u64 = 8 << 20;
/// Redirects that one read follows.
const MOST_MOVES: usize = 5;
/// Tries of one read, and the longest wait between two of them that a source may ask for.
const TRIES: u32 = 3;
const LONGEST_WAIT: Duration = Duration::from_secs(10);
const SHORTEST_WAIT: Duration = Duration::from_millis(200);

/// How a source is reached over HTTP.
pub(super) struct Way {
    /// Where logins are borne to.
    base: Url,
    /// `host` or `host:port` beside the base's own.
    hosts: Vec<String>,
    bounds: Bounds,
    pub login: Login,
    egress: Egress,
}

/// What came, and from where.
pub(super) struct Came {
    pub answer: Answer,
    pub url: Url,
}

impl Way {
    /// Errors: its address is no URL.
    pub fn new(source: &Source, base: &str, login: Login, egress: Egress) -> Result<Way, SourceError> {
        let base = Url::parse(base).map_err(|_| unfit("the catalog's address is no URL"))?;
        let Limits { timeout_ms, max_response_bytes, .. } = source.limits();
        let bounds = Bounds {
            within: timeout_ms.map_or(WITHIN, Duration::from_millis),
            largest: usize::try_from(max_response_bytes.unwrap_or(LARGEST)).unwrap_or(usize::MAX),
        };
        Ok(Way { base, hosts: source.hosts().to_vec(), bounds, login, egress })
    }

    /// Whether requests may lead there.
    pub fn admits(&self, url: &Url) -> bool {
        if same_origin(url, &self.base) {
            return true;
        }
        let Some(host) = url.host_str() else { return false };
        let bare = url.username().is_empty() && url.password().is_none();
        // Never from https to what others can read.
        let scheme = url.scheme() == "https" || url.scheme() == self.base.scheme();
        let usual = url.port().is_none();
        let named = |entry: &String| match entry.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                name == host
                    && url.port_or_known_default().map(|port| port.to_string()).as_deref() == Some(port)
            }
            _ => entry == host && usual,
        };
        bare && scheme && self.hosts.iter().any(named)
    }

    /// The URL of a next page as it may rest in a store: without the login. Errors: it leads where requests may not.
    pub fn bare(&self, mut url: Url) -> Result<Url, SourceError> {
        if !self.admits(&url) {
            let host = url.host_str().unwrap_or_default().to_owned();
            let message =
                format!("the next page is at {host}, which the catalog does not allow; see source.hosts");
            return Err(failure(SourceErrorKind::Shape, message, false));
        }
        url.set_fragment(None);
        if let Some(parameter) = self.login.parameter() {
            request::without(&mut url, parameter);
        }
        Ok(url)
    }

    /// The answer, with a status that says it was done.
    pub async fn send(
        &self,
        ask: &Ask,
        operation: &Operation,
        request: Request,
    ) -> Result<Came, SourceError> {
        if !self.admits(&request.url) {
            let host = request.url.host_str().unwrap_or_default();
            return Err(unfit(format!("{host} is no host of this source; see source.hosts")));
        }
        let write = is_write(operation);
        let known = operation.effect.as_ref().is_some_and(|effect| effect.idempotency_header.is_some());
        let again = !write || (known && ask.idempotency_key.is_some());
        let end = Instant::now() + self.bounds.within * 2;
        let mut tried = 1;
        loop {
            let failed = match self.once(ask, operation, &request, write).await {
                Ok(came) => return Ok(came),
                Err(failed) => failed,
            };
            let wait = failed.wait.map(|asked| asked.unwrap_or(SHORTEST_WAIT * (1 << tried)));
            match wait {
                Some(wait)
                    if again && tried < TRIES && wait <= LONGEST_WAIT && Instant::now() + wait < end =>
                {
                    tracing::debug!(api = ask.catalog.id, tried, "a request to a source is made again");
                    sleep(wait).await;
                    tried += 1;
                }
                _ => return Err(failed.error),
            }
        }
    }

    /// One try, redirects included.
    async fn once(
        &self,
        ask: &Ask,
        operation: &Operation,
        request: &Request,
        write: bool,
    ) -> Result<Came, Failed> {
        let end = Instant::now() + self.bounds.within;
        let (mut url, mut method, mut body) =
            (request.url.clone(), request.method.clone(), request.body.clone());
        let (mut moves, mut mended) = (0, None);
        loop {
            let ours = same_origin(&url, &self.base);
            let bears = match ours {
                true => self.login.bears(&ask.caller, mended.clone()).await?,
                false => Bears::default(),
            };
            let bore = bears.header.as_ref().map(|(_, value)| value.clone());
            let built = self.built(&url, &method, body.as_ref(), request, bears, ours)?;
            let left = end.saturating_duration_since(Instant::now());
            let bounds = Bounds { within: left, ..self.bounds };
            let answer = self.egress.send_within(built, Named::Listed, bounds).await;
            let answer = answer.map_err(|error| broken(&error, write))?;
            let status = answer.status;
            if status.is_success() {
                return Ok(Came { answer, url });
            }
            let login = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
            // A request that was refused for its login has not begun (RFC 9110 15.5.2).
            if login && ours && self.login.mends() && mended.is_none() {
                mended = Some((refusal(&answer), bore));
                continue;
            }
            if let Some(to) = moved(&answer, &url).filter(|_| !write) {
                moves += 1;
                if moves > MOST_MOVES {
                    return Err(unfit(format!("the source redirects more than {MOST_MOVES} times")).into());
                }
                if !self.admits(&to) {
                    let host = to.host_str().unwrap_or_default();
                    return Err(unfit(format!(
                        "the source redirects to {host}, which the catalog does not allow"
                    ))
                    .into());
                }
                if matches!(status.as_u16(), 301..=303) && method != Method::GET {
                    (method, body) = (Method::GET, None);
                }
                url = to;
                continue;
            }
            return Err(self.refused(operation, &answer));
        }
    }

    fn built(
        &self,
        url: &Url,
        method: &Method,
        body: Option<&Json>,
        request: &Request,
        bears: Bears,
        ours: bool,
    ) -> Result<http::Request<Bytes>, SourceError> {
        use secrecy::ExposeSecret;
        let mut url = url.clone();
        if let Some((name, value)) = &bears.query {
            request::set(&mut url, name, value.expose_secret());
        }
        let bytes = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let built = http::Request::builder().method(method.clone()).uri(url.as_str()).body(bytes);
        let mut built = built.map_err(|_| unfit("the address of this request cannot be written"))?;
        if ours {
            *built.headers_mut() = request.headers.clone();
        } else {
            // What a catalog or a call gives in headers is for its own source.
            built.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        }
        if body.is_some() {
            // A catalog may say which JSON it is: `application/merge-patch+json`.
            let json = HeaderValue::from_static("application/json");
            built.headers_mut().entry(header::CONTENT_TYPE).or_insert(json);
        }
        if let Some((name, value)) = bears.header {
            built.headers_mut().insert(name, value);
        }
        Ok(built)
    }

    /// An answer whose status is no success. What a source says back of its own secret is not shown.
    fn refused(&self, operation: &Operation, answer: &Answer) -> Failed {
        let shows = self.login.is_shown_by(&String::from_utf8_lossy(&answer.body));
        let body = if shows { &[][..] } else { &answer.body };
        let error = answer::status(operation, answer.status, &answer.headers, body);
        let error = answer::graphql_refused(operation, body).unwrap_or(error);
        let wait = match answer.status.as_u16() {
            429 | 503 => Some(answer::retry_after(&answer.headers)),
            _ => None,
        };
        Failed { error, wait }
    }
}

/// A try that failed.
struct Failed {
    error: SourceError,
    /// Whether another may succeed, and how long the source asked to wait before it.
    wait: Option<Option<Duration>>,
}

impl From<SourceError> for Failed {
    fn from(error: SourceError) -> Failed {
        Failed { error, wait: None }
    }
}

fn broken(error: &FetchError, write: bool) -> Failed {
    let (kind, uncertain, again) = match error {
        FetchError::Url | FetchError::Refused => (SourceErrorKind::Status, false, false),
        FetchError::Unreachable => (SourceErrorKind::Timeout, false, true),
        FetchError::Late => (SourceErrorKind::Timeout, write, false),
        FetchError::TooLarge => (SourceErrorKind::TooLarge, write, false),
        FetchError::Broken => (SourceErrorKind::Timeout, write, true),
    };
    let error = failure(kind, format!("the source cannot be read: {error}"), uncertain);
    Failed { error, wait: again.then_some(None) }
}

fn refusal(answer: &Answer) -> Refused {
    let challenges = answer.headers.get_all(header::WWW_AUTHENTICATE).iter();
    let challenges = challenges.filter_map(|value| value.to_str().ok().map(str::to_owned)).collect();
    Refused { status: answer.status.as_u16(), challenges }
}

/// Where an answer redirects to.
fn moved(answer: &Answer, from: &Url) -> Option<Url> {
    if !matches!(answer.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let mut to = from.join(answer.headers.get(header::LOCATION)?.to_str().ok()?).ok()?;
    to.set_fragment(None);
    Some(to)
}
