//! Requests for pages beside MCP, handed to the room whose they are: read whole and bounded, guarded by who reads them.

use super::gate::Gate;
use super::said::Said;
use super::{body, guard, http::read};
use crate::auth::pages::{Asked, LARGEST, Readers};
use crate::http1::Request;
use axum::body::Body;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method as Verb, Response, StatusCode};
use std::sync::Arc;

/// The answer to a request for a page of the site; its host was admitted before.
pub async fn answer(gate: Arc<Gate>, head: Request, body: &mut Body) -> Response<Body> {
    let Some((pages, readers)) = gate.site.find(head.target.path()) else {
        return body::refusal(&gate, StatusCode::NOT_FOUND, "no such page");
    };
    let mut response = match readers {
        Readers::Programs if head.method == Verb::OPTIONS => {
            let mut response = body::empty(&gate, StatusCode::NO_CONTENT);
            guard::preflight(head.fields.map(), response.headers_mut());
            response
        }
        Readers::Browsers if guard::admit_origin(&gate.rules, head.fields.map()).is_err() => {
            body::refusal(&gate, StatusCode::FORBIDDEN, "this page is not for other origins")
        }
        _ => match read(&gate, Said::of(&head.fields).length(), body, LARGEST).await {
            Ok(body) => {
                let asked = Asked {
                    verb: head.method,
                    path: head.target.path().to_owned(),
                    query: head.target.query().map(str::to_owned),
                    headers: head.fields.into_map(),
                    body,
                };
                body::signed(&gate, pages.clone().answer(asked).await.map(Body::from))
            }
            Err(refusal) => refusal,
        },
    };
    match readers {
        Readers::Programs => guard::open_cors(response.headers_mut()),
        Readers::Browsers => guard_browser(response.headers_mut()),
    }
    response
}

/// What holds for every page that a browser shows, whatever is on it. A page may be stricter, never laxer.
fn guard_browser(out: &mut HeaderMap) {
    const ALWAYS: [(HeaderName, &str); 4] = [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // With `no-referrer`, browsers send `Origin: null` with forms, and no form of ours could be told from a foreign one.
        (header::REFERRER_POLICY, "same-origin"),
    ];
    for (name, value) in ALWAYS {
        out.insert(name, HeaderValue::from_static(value));
    }
    let strict = "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
    out.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(strict));
}
