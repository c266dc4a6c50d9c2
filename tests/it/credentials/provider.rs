//! An upstream that lets nobody in without a token, with its authorisation server at the same address, and a browser.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, Response, StatusCode, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;
use url::Url;

use crate::gateway::exchange;

type Form = BTreeMap<String, String>;

#[derive(Default)]
struct State {
    /// Whose each token is.
    tokens: HashMap<String, String>,
    refresh: HashMap<String, String>,
    codes: HashMap<String, String>,
    /// What the token endpoint was asked, and the last authorisation request.
    asked: Vec<Form>,
    authorised: Form,
    seen: Vec<String>,
    /// The tokens that the upstream was shown.
    shown: Vec<String>,
    server: String,
    /// Who logs in at the authorisation server.
    user: String,
    /// Whether it speaks the legacy era, whose sessions are of one user each; and requests in another's.
    legacy: bool,
    mixed: usize,
    answers_as: Option<String>,
    count: usize,
}

pub struct Provider {
    pub address: SocketAddr,
    pub refreshes: Arc<AtomicUsize>,
    state: Arc<Mutex<State>>,
    _serving: AbortOnDropHandle<()>,
}

impl Provider {
    pub async fn start() -> Provider {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (state, refreshes) = (Arc::new(Mutex::new(State::default())), Arc::new(AtomicUsize::new(0)));
        {
            let mut state = state.lock().unwrap();
            (state.server, state.user) = (format!("http://{address}"), "user one".into());
            state.answers_as = Some(state.server.clone());
        }
        let (mine, count) = (state.clone(), refreshes.clone());
        let app = Router::new().fallback(move |request: Request<Body>| {
            let (state, count) = (mine.clone(), count.clone());
            async move { answer(address, &state, &count, request).await }
        });
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.expect("it serves") });
        Provider { address, refreshes, state, _serving: AbortOnDropHandle::new(serving) }
    }

    pub fn at(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The requests for tokens so far.
    pub fn asked(&self) -> Vec<Form> {
        self.state.lock().unwrap().asked.clone()
    }

    pub fn authorised(&self) -> Form {
        self.state.lock().unwrap().authorised.clone()
    }

    /// How many requests for paths that begin so it saw.
    pub fn seen(&self, path: &str) -> usize {
        self.state.lock().unwrap().seen.iter().filter(|seen| seen.starts_with(path)).count()
    }

    pub fn shown(&self) -> Vec<String> {
        self.state.lock().unwrap().shown.clone()
    }

    pub fn log_in_as(&self, user: &str) {
        self.state.lock().unwrap().user = user.to_owned();
    }

    pub fn speak_legacy(&self) {
        self.state.lock().unwrap().legacy = true;
    }

    /// How many requests came in a session of another user than their token's.
    pub fn mixed(&self) -> usize {
        self.state.lock().unwrap().mixed
    }

    /// No token is known any more, but what renews them is.
    pub fn forget_tokens(&self) {
        self.state.lock().unwrap().tokens.clear();
    }

    pub fn expire_tokens(&self) {
        self.forget_tokens();
    }

    pub fn revoke_everything(&self) {
        let mut state = self.state.lock().unwrap();
        state.tokens.clear();
        state.refresh.clear();
    }

    /// The authorisation server that its metadata names.
    pub fn name_server(&self, issuer: &str) {
        self.state.lock().unwrap().server = issuer.to_owned();
    }

    /// The `iss` of its answers.
    pub fn answer_as(&self, issuer: Option<&str>) {
        self.state.lock().unwrap().answers_as = issuer.map(str::to_owned);
    }
}

async fn answer(
    address: SocketAddr,
    state: &Mutex<State>,
    refreshes: &AtomicUsize,
    request: Request<Body>,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.expect("a small body");
    let path = parts.uri.path().to_owned();
    let here = format!("http://{address}");
    state.lock().unwrap().seen.push(path.clone());
    match path.as_str() {
        "/mcp" => mcp(&here, state, &parts.headers, &body),
        "/.well-known/oauth-protected-resource/mcp" => {
            let server = state.lock().unwrap().server.clone();
            json_answer(
                200,
                json!({ "resource": format!("{here}/mcp"), "authorization_servers": [server], "scopes_supported": ["mcp"] }),
            )
        }
        "/.well-known/oauth-authorization-server" => json_answer(
            200,
            json!({
                "issuer": here, "authorization_endpoint": format!("{here}/authorize"), "token_endpoint": format!("{here}/token"),
                "registration_endpoint": format!("{here}/register"), "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": true, "token_endpoint_auth_methods_supported": ["none"],
            }),
        ),
        "/register" => {
            let asked: Value = serde_json::from_slice(&body).expect("JSON");
            json_answer(201, json!({ "client_id": "registered", "redirect_uris": asked["redirect_uris"] }))
        }
        "/authorize" => authorize(state, &form(parts.uri.query().unwrap_or_default().as_bytes())),
        "/token" => token(state, refreshes, &parts.headers, form(&body)).await,
        _ => json_answer(404, json!({})),
    }
}

fn form(text: &[u8]) -> Form {
    url::form_urlencoded::parse(text).into_owned().collect()
}

fn json_answer(status: u16, body: Value) -> Response<Body> {
    let answer = Response::builder().status(status).header(header::CONTENT_TYPE, "application/json");
    answer.body(Body::from(body.to_string())).expect("a plain answer")
}

fn authorize(state: &Mutex<State>, asked: &Form) -> Response<Body> {
    let mut state = state.lock().unwrap();
    state.count += 1;
    let code = format!("code-{}", state.count);
    state.codes.insert(code.clone(), asked["code_challenge"].clone());
    state.authorised = asked.clone();
    let mut to = Url::parse(&asked["redirect_uri"]).expect("a redirect address");
    to.query_pairs_mut().append_pair("code", &code).append_pair("state", &asked["state"]);
    if let Some(issuer) = &state.answers_as {
        to.query_pairs_mut().append_pair("iss", issuer);
    }
    let answer = Response::builder().status(StatusCode::FOUND).header(header::LOCATION, to.as_str());
    answer.body(Body::empty()).expect("a plain answer")
}

async fn token(
    state: &Mutex<State>,
    refreshes: &AtomicUsize,
    headers: &HeaderMap,
    mut asked: Form,
) -> Response<Body> {
    let credentials =
        headers.get(header::AUTHORIZATION).map_or("", |value| value.to_str().expect("text")).to_owned();
    asked.insert("authorization".into(), credentials.clone());
    state.lock().unwrap().asked.push(asked.clone());
    let who = match asked["grant_type"].as_str() {
        "client_credentials" => {
            if credentials != format!("Basic {}", STANDARD.encode("gw:s3cret")) {
                return json_answer(401, json!({ "error": "invalid_client" }));
            }
            "client gw".to_owned()
        }
        "urn:ietf:params:oauth:grant-type:token-exchange" => {
            let claims = asked["subject_token"].split('.').nth(1).expect("a JWT");
            let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims).expect("base64");
            let claims: Value = serde_json::from_slice(&claims).expect("JSON");
            format!("for {}", claims["sub"].as_str().expect("a subject"))
        }
        "authorization_code" => {
            let challenge = state.lock().unwrap().codes.remove(&asked["code"]);
            let digest =
                aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, asked["code_verifier"].as_bytes());
            let shown = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(digest);
            if challenge != Some(shown) {
                return json_answer(400, json!({ "error": "invalid_grant" }));
            }
            state.lock().unwrap().user.clone()
        }
        _ => {
            refreshes.fetch_add(1, SeqCst);
            // Long enough for others to want one too.
            tokio::time::sleep(Duration::from_millis(150)).await;
            if state.lock().unwrap().refresh.remove(&asked["refresh_token"]).is_none() {
                return json_answer(400, json!({ "error": "invalid_grant" }));
            }
            "user one".to_owned()
        }
    };
    let mut state = state.lock().unwrap();
    state.count += 1;
    let (token, refresh) = (format!("token-{}", state.count), format!("refresh-{}", state.count));
    state.tokens.insert(token.clone(), who.clone());
    state.refresh.insert(refresh.clone(), who.clone());
    let mut given = json!({ "access_token": token, "token_type": "Bearer", "expires_in": 3600 });
    if who.starts_with("user") {
        given["refresh_token"] = refresh.into();
    }
    json_answer(200, given)
}

fn mcp(here: &str, state: &Mutex<State>, headers: &HeaderMap, body: &[u8]) -> Response<Body> {
    let token =
        headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    state.lock().unwrap().shown.extend(token.map(str::to_owned));
    let who = token.and_then(|token| state.lock().unwrap().tokens.get(token).cloned());
    let Some(who) = who else {
        let metadata = format!("{here}/.well-known/oauth-protected-resource/mcp");
        let challenge = format!(r#"Bearer error="invalid_token", resource_metadata="{metadata}""#);
        let answer = Response::builder().status(401).header(header::WWW_AUTHENTICATE, challenge);
        return answer.body(Body::empty()).expect("a plain answer");
    };
    let asked: Value = serde_json::from_slice(body).unwrap_or_default();
    if state.lock().unwrap().legacy {
        return legacy(state, headers, &asked, &who);
    }
    let result = match asked["method"].as_str().unwrap_or_default() {
        "server/discover" => json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } }),
        "tools/list" => {
            json!({ "tools": [{ "name": "whoami", "description": "Who calls.", "inputSchema": { "type": "object" } }] })
        }
        _ => json!({ "content": [{ "type": "text", "text": who }] }),
    };
    let mut result = result;
    result["resultType"] = "complete".into();
    (result["ttlMs"], result["cacheScope"]) = (60_000.into(), "public".into());
    json_answer(200, json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }))
}

/// As a server of the legacy era answers.
fn legacy(state: &Mutex<State>, headers: &HeaderMap, asked: &Value, who: &str) -> Response<Body> {
    let session = headers.get("mcp-session-id").map(|value| value.to_str().expect("text"));
    if session.is_some_and(|session| session != who.replace(' ', "-")) {
        state.lock().unwrap().mixed += 1;
    }
    let result = match asked["method"].as_str() {
        Some("initialize") => {
            json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": { "name": "p", "version": "1" } })
        }
        Some("server/discover") => {
            let error = json!({ "code": -32601, "message": "no such method" });
            return json_answer(200, json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error }));
        }
        Some("tools/list") => json!({ "tools": [{ "name": "whoami", "inputSchema": { "type": "object" } }] }),
        Some("tools/call") => json!({ "content": [{ "type": "text", "text": who }] }),
        Some(_) => return json_answer(202, json!({})),
        None => return json_answer(405, json!({})),
    };
    let mut answer = json_answer(200, json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }));
    answer.headers_mut().insert("mcp-session-id", who.replace(' ', "-").parse().expect("a header"));
    answer
}

/// A browser: cookies by address, redirects followed.
#[derive(Default)]
pub struct Browser {
    cookies: HashMap<String, BTreeMap<String, String>>,
}

pub fn browse() -> Browser {
    Browser::default()
}

pub struct Page {
    pub status: u16,
    pub text: String,
    at: Url,
}

impl Page {
    /// The address of the first link to a path that begins so.
    pub fn link(&self, path: &str) -> Option<String> {
        let text = self.text.replace("&#x2f;", "/").replace("&amp;", "&");
        let from = text.find(&format!("href=\"{path}"))? + 6;
        let href = text[from..].split('"').next()?.to_owned();
        Some(self.at.join(&href).ok()?.into())
    }
}

impl Browser {
    /// What it shows in the end.
    pub async fn open(&mut self, url: &str) -> Page {
        let mut at = Url::parse(url).expect("an address");
        for _ in 0..10 {
            let host = format!("{}:{}", at.host_str().unwrap(), at.port().unwrap());
            let jar = self.cookies.entry(host.clone()).or_default();
            let cookies =
                jar.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ");
            let path =
                format!("{}{}", at.path(), at.query().map_or(String::new(), |query| format!("?{query}")));
            let address = host.parse().expect("an address and a port");
            let mut answer = exchange::request(address, "GET", &path, &[("cookie", &cookies)], "").await;
            for set in answer.headers.get_all("set-cookie") {
                let set = set.to_str().expect("text");
                let (name, value) = set.split(';').next().unwrap().split_once('=').unwrap();
                jar.insert(name.to_owned(), value.to_owned());
            }
            let text = String::from_utf8(answer.bytes().await.to_vec()).expect("text");
            match answer.header("location").filter(|_| (300..400).contains(&answer.status)) {
                Some(to) => at = at.join(to).expect("an address"),
                None => return Page { status: answer.status, text, at },
            }
        }
        panic!("it is sent round and round")
    }

    /// From a link of the gateway's to the last page, whatever that says.
    pub async fn open_all(&mut self, url: &str) -> Page {
        let page = self.open(url).await;
        let on =
            page.link("/connect/begin").unwrap_or_else(|| panic!("no way on: {} {}", page.status, page.text));
        self.open(&on).await
    }

    /// From a link of the gateway's to a connected account.
    pub async fn through(&mut self, url: &str) {
        let page = self.open_all(url).await;
        assert!(page.status == 200 && page.text.contains("is connected"), "{} {}", page.status, page.text);
    }
}
