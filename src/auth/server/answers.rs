//! What programs are told: JSON, and errors in the form of RFC 6749 5.2.

use crate::auth::pages;
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use serde_json::{Value, json};

/// Why a request for a token, a registration or a revocation is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub error: &'static str,
    /// For people. It repeats nothing that was sent.
    pub why: String,
    pub status: StatusCode,
}

impl Refused {
    pub fn new(error: &'static str, why: impl Into<String>) -> Refused {
        let status = match error {
            "invalid_client" => StatusCode::UNAUTHORIZED,
            "temporarily_unavailable" => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_REQUEST,
        };
        Refused { error, why: why.into(), status }
    }

    /// The store is out of reach: the same request may be sent again.
    pub fn away() -> Refused {
        Refused::new("temporarily_unavailable", "the state store is out of reach; send the same again")
    }

    pub fn answer(&self) -> Response<Bytes> {
        let mut response = json(self.status, &json!({"error": self.error, "error_description": self.why}));
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Basic realm=\"token\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

/// A JSON answer that nobody keeps (RFC 6749 5.1).
pub fn json(status: StatusCode, value: &Value) -> Response<Bytes> {
    text(status, value.to_string())
}

/// As [`json`], of JSON that is written already.
pub fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = pages::answer(status, "application/json", text);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.headers_mut().insert(header::PRAGMA, HeaderValue::from_static("no-cache"));
    response
}
