//! Pages beside MCP: what a login, a client that registers or a user's browser asks for on the public listener. The edge
//! reads and bounds the request, and writes the answer; what a path means is known here alone.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode};
use std::sync::Arc;

/// Largest body that a page takes, in bytes: forms and registrations are small.
pub const LARGEST: usize = 64 << 10;

/// A request for a page, whole.
pub struct Asked {
    pub verb: Method,
    /// As it came, without the query.
    pub path: String,
    pub query: Option<String>,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Who reads what a path gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Readers {
    /// Programs, also those in a page of any origin: the answers depend on no cookie (CORS, `*`).
    Programs,
    /// A person's browser, which sends cookies: no other origin may ask, and none may read.
    Browsers,
}

/// Some pages. An implementation answers only what it said that it knows.
pub trait Pages: Send + Sync + 'static {
    /// Who reads what is at this path; `None`: nothing of these pages is.
    fn readers(&self, path: &str) -> Option<Readers>;

    /// The answer, any verb. `OPTIONS` to [`Readers::Programs`] is answered before.
    fn answer(self: Arc<Self>, asked: Asked) -> BoxFuture<'static, Response<Bytes>>;
}

/// All pages of a gateway. Empty where no login is configured.
#[derive(Default)]
pub struct Site(Vec<Arc<dyn Pages>>);

impl Site {
    /// The first that knows a path answers it.
    pub fn of(pages: Vec<Arc<dyn Pages>>) -> Site {
        Site(pages)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whose a path is, and who reads it.
    pub fn find(&self, path: &str) -> Option<(&Arc<dyn Pages>, Readers)> {
        self.0.iter().find_map(|pages| Some((pages, pages.readers(path)?)))
    }
}

/// An answer of one media type.
pub fn answer(status: StatusCode, media: &'static str, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// 405 with what is allowed.
pub fn not_allowed(allow: &'static str) -> Response<Bytes> {
    let mut response = answer(
        StatusCode::METHOD_NOT_ALLOWED,
        "text/plain; charset=utf-8",
        "this method is not allowed here\n",
    );
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}

/// A value of a header, once only: one that is given twice is none.
pub fn single<'a>(map: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = map.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}
