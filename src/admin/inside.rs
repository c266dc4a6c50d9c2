//! What lies under `/admin/`: pages that show or change what the gateway does, for its operator alone. Knows no page of it.

use super::not_allowed;
use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt, Limited};
use secrecy::{ExposeSecret, SecretString};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Largest body that a page takes, in bytes, and how long it may take to come.
const LARGEST: usize = 64 << 10;
const WITHIN: Duration = Duration::from_secs(5);

/// A page, at one path and for one verb (`HEAD` goes with `GET`).
pub trait Page: Send + Sync + 'static {
    /// `/admin/…`
    fn path(&self) -> &'static str;
    fn verb(&self) -> Method;
    /// `head` as it came; `body` whole.
    fn answer(&self, head: &Parts, body: Bytes) -> BoxFuture<'static, Response>;
}

/// The pages, and who may ask for them.
#[derive(Default)]
pub struct Inside {
    /// What opens them from other machines; without it they answer on loopback alone.
    token: Option<SecretString>,
    pages: Vec<Arc<dyn Page>>,
}

impl Inside {
    pub fn new(token: Option<SecretString>, pages: Vec<Arc<dyn Page>>) -> Inside {
        Inside { token, pages }
    }

    /// The answer to a request of `peer` for a path under `/admin/`.
    pub async fn answer(&self, peer: SocketAddr, request: Request<Body>) -> Response {
        if let Err(refused) = self.admit(peer, request.headers()) {
            return refused;
        }
        let path = request.uri().path();
        let here: Vec<&Arc<dyn Page>> = self.pages.iter().filter(|page| page.path() == path).collect();
        let verb = if request.method() == Method::HEAD { Method::GET } else { request.method().clone() };
        let Some(page) = here.iter().find(|page| page.verb() == verb) else {
            return match here.first().map(|page| page.verb()) {
                None => (StatusCode::NOT_FOUND, "no such page\n").into_response(),
                Some(Method::GET) => not_allowed("GET, HEAD", "GET only\n"),
                Some(_) => not_allowed("POST", "POST only\n"),
            };
        };
        let (head, body) = request.into_parts();
        let read = tokio::time::timeout(WITHIN, Limited::new(body, LARGEST).collect()).await;
        let Ok(Ok(body)) = read else {
            return (StatusCode::BAD_REQUEST, "the body is too large, or did not come\n").into_response();
        };
        page.answer(&head, body.to_bytes()).await
    }

    /// Whoever has the token; without it whoever is on this machine, but no page in a browser there, which is told by the origin
    /// that it names or the name that it came by (DNS rebinding).
    fn admit(&self, peer: SocketAddr, map: &HeaderMap) -> Result<(), Response> {
        let shown =
            map.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        if let Some(shown) = shown {
            let good = self.token.as_ref().is_some_and(|token| same(token.expose_secret(), shown));
            let why = "this is not the admin token\n";
            return if good { Ok(()) } else { Err((StatusCode::UNAUTHORIZED, why).into_response()) };
        }
        let host = map.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        if !peer.ip().to_canonical().is_loopback() || map.contains_key(header::ORIGIN) || !is_plain(host) {
            let why = "from elsewhere this needs the admin token: Authorization: Bearer\n";
            return Err((StatusCode::FORBIDDEN, why).into_response());
        }
        Ok(())
    }
}

/// In a time that says nothing of where they differ.
fn same(token: &str, shown: &str) -> bool {
    let digest = |text: &str| aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    aws_lc_rs::constant_time::verify_slices_are_equal(digest(token).as_ref(), digest(shown).as_ref()).is_ok()
}

/// A loopback address or `localhost`, with or without a port: nobody else's name, and not what a proxy on this machine passes on for others.
fn is_plain(host: &str) -> bool {
    let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
    let name = name.map_or(host, |(name, _)| name).trim_matches(['[', ']']);
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    struct Ping;

    impl Page for Ping {
        fn path(&self) -> &'static str {
            "/admin/ping"
        }

        fn verb(&self) -> Method {
            Method::POST
        }

        fn answer(&self, _: &Parts, body: Bytes) -> BoxFuture<'static, Response> {
            futures_util::future::ready(body.into_response()).boxed()
        }
    }

    #[tokio::test]
    async fn it_is_for_this_machine_or_the_token_and_for_no_page() {
        let inside = Inside::new(Some("t0p".into()), vec![Arc::new(Ping)]);
        let closed = Inside::new(None, vec![Arc::new(Ping)]);
        let (here, there) = ("127.0.0.1:5", "10.0.0.1:5");
        let local: (&str, &str) = ("host", "127.0.0.1:9090");
        /// Who asks, with which headers; the status with a token configured, and without.
        type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], u16, u16);
        let cases: [Case<'_>; 8] = [
            (here, &[local], 200, 200),
            (here, &[("host", "10.0.0.7:9090")], 403, 403),
            (here, &[("host", "rebound.example:9090")], 403, 403),
            (here, &[local, ("origin", "http://127.0.0.1:9090")], 403, 403),
            (there, &[local], 403, 403),
            (there, &[("host", "pod"), ("authorization", "Bearer t0p")], 200, 401),
            (there, &[("host", "pod"), ("authorization", "Bearer t0")], 401, 401),
            (here, &[local, ("authorization", "Bearer wrong")], 401, 401),
        ];
        for (peer, headers, with_token, without) in cases {
            for (inside, status) in [(&inside, with_token), (&closed, without)] {
                let request = Request::post("/admin/ping");
                let request =
                    headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
                let answer = inside.answer(peer.parse().unwrap(), request.body(Body::empty()).unwrap()).await;
                assert_eq!(answer.status().as_u16(), status, "{peer} {headers:?}");
            }
        }
        let ask = |verb: Method, path: &str| {
            let request = Request::builder().method(verb).uri(path).header("host", "localhost");
            inside.answer(here.parse().unwrap(), request.body(Body::empty()).unwrap())
        };
        assert_eq!(ask(Method::GET, "/admin/ping").await.status(), 405);
        assert_eq!(ask(Method::POST, "/admin/pong").await.status(), 404);
    }
}
