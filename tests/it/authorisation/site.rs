//! Pods with our authorisation server before a provider, and what stands before them: a browser with cookies, and a client's
//! program. Nothing here corrects a request.

use crate::gateway::Gateway;
use crate::gateway::exchange::{Answer, request};
use crate::harness::Fixture;
use crate::store::redis::server::Server;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tempfile::TempDir;
use url::Url;
use url::form_urlencoded::Serializer;

/// Where browsers and clients believe the gateway to be.
pub const ORIGIN: &str = "https://mcp.example.com";
pub const RESOURCE: &str = "https://mcp.example.com/mcp";
const SECRET: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
const VERIFIER: &str = "0123456789-0123456789-0123456789-0123456789";

/// The gateway and its provider. They end with this value.
pub struct Site {
    pub pods: Vec<Gateway>,
    pub redis: Option<Server>,
    pub provider: Fixture,
    _folder: TempDir,
}

/// An answer, whole.
pub struct Reply {
    pub status: u16,
    pub text: String,
    pub answer: Answer,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error} in {}", self.text))
    }

    pub fn location(&self) -> &str {
        self.answer.header("location").unwrap_or_else(|| panic!("no redirect: {} {}", self.status, self.text))
    }

    /// The value of a hidden field.
    pub fn field(&self, name: &str) -> String {
        let (_, rest) =
            self.text.split_once(&format!("name=\"{name}\" value=\"")).expect("there is such a field");
        plain(rest.split('"').next().unwrap_or_default())
    }

    /// The value of the last hidden field of this name, where several forms have one.
    pub fn last_field(&self, name: &str) -> String {
        let (_, rest) =
            self.text.rsplit_once(&format!("name=\"{name}\" value=\"")).expect("there is such a field");
        plain(rest.split('"').next().unwrap_or_default())
    }

    /// Where the page sends its browser.
    pub fn onward(&self) -> Url {
        let (_, rest) = self.text.split_once("content=\"0;url=").unwrap_or_else(|| panic!("{}", self.text));
        Url::parse(&plain(rest.split('"').next().unwrap_or_default())).expect("a URL")
    }
}

/// HTML's text as it is meant.
pub fn plain(text: &str) -> String {
    let known =
        [("&#x2f;", "/"), ("&quot;", "\""), ("&#x27;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")];
    known.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// A parameter of a URL's query.
pub fn parameter(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

impl Site {
    /// One pod, with `more` under `auth.server`.
    pub fn alone(more: Value) -> Site {
        Site::of(1, None, more, json!({}))
    }

    /// Three pods over one Redis.
    pub fn three() -> Site {
        Site::of(3, Some(Server::start(&[])), json!({}), json!({}))
    }

    pub fn of(pods: usize, redis: Option<Server>, more: Value, outside: Value) -> Site {
        let provider = Fixture::listening("--oidc", &[]);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("secret");
        std::fs::write(&file, SECRET).expect("the folder takes a file");
        let key = json!([{ "file": file }]);
        let mut server = json!({ "enabled": true, "signing_keys": key });
        server.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
        let oidc = json!({
            "issuer": provider.url, "client_id": "plasm", "client_secret": "provider-secret", "scopes": ["email"],
            "tenant_claim": "org", "claims": ["groups"],
        });
        let mut config = json!({
            "public_url": ORIGIN,
            "demo": true,
            "sealing": { "keys": key },
            "auth": { "server": server, "login": { "oidc": oidc }, "scopes_supported": ["tools:write"] },
            "profiles": { "default": { "scopes": { "required": ["tools:read"] } }, "dev": {} },
        });
        if let Some(redis) = &redis {
            config["store"] = json!({ "redis_url": redis.url() });
        }
        config.as_object_mut().expect("a map").extend(outside.as_object().expect("a map").clone());
        let pods = (0..pods).map(|_| Gateway::start(config.clone())).collect();
        Site { pods, redis, provider, _folder: folder }
    }

    pub fn at(&self, pod: usize) -> SocketAddr {
        self.pods[pod % self.pods.len()].address
    }

    /// A browser whose user logs in at the provider under this name.
    pub fn browser(&self, pod: usize, user: &str) -> Browser {
        Browser { pod: self.at(pod), user: user.to_owned(), jar: BTreeMap::new() }
    }

    /// A registered client; `body` as the client sends it.
    pub async fn register(&self, body: Value) -> Reply {
        post_json(self.at(0), "/register", &body).await
    }

    /// A client that anyone could be, with this address.
    pub async fn client(&self, redirect: &str) -> String {
        let body = json!({ "redirect_uris": [redirect], "token_endpoint_auth_method": "none", "client_name": "App" });
        let reply = self.register(body).await;
        assert_eq!(reply.status, 201, "{}", reply.text);
        reply.json()["client_id"].as_str().expect("an id").to_owned()
    }

    /// Everything from the question to a code, on one pod.
    pub async fn code(&self, user: &str, client: &str, redirect: &str) -> String {
        let mut browser = self.browser(0, user);
        let page = browser.log_in(&query(client, redirect, &[])).await;
        let done = browser.decide(&page, "allow").await;
        parameter(&done.onward(), "code").unwrap_or_else(|| panic!("{}", done.text))
    }

    /// Tokens for a code, from a pod.
    pub async fn redeem(&self, pod: usize, client: &str, redirect: &str, code: &str) -> Reply {
        self.token(pod, &redemption(client, redirect, code)).await
    }

    /// A form to the token endpoint.
    pub async fn token(&self, pod: usize, form: &[(&str, &str)]) -> Reply {
        post_form(self.at(pod), "/token", &[], form).await
    }

    pub async fn renew(&self, pod: usize, client: &str, refresh: &str) -> Reply {
        let form = [("grant_type", "refresh_token"), ("client_id", client), ("refresh_token", refresh)];
        self.token(pod, &form).await
    }

    /// The status of an MCP call with this token.
    pub async fn calls(&self, pod: usize, token: &str) -> u16 {
        let at = &self.pods[pod % self.pods.len()];
        crate::auth::list_as(at, "/mcp", token).await.status
    }
}

/// The form with which a client redeems a code.
pub fn redemption<'a>(client: &'a str, redirect: &'a str, code: &'a str) -> [(&'a str, &'a str); 6] {
    [
        ("grant_type", "authorization_code"),
        ("client_id", client),
        ("redirect_uri", redirect),
        ("code", code),
        ("code_verifier", VERIFIER),
        ("resource", RESOURCE),
    ]
}

/// An authorization request of a client that does all as it should; `more` replaces parameters, an empty value takes one away.
pub fn query(client: &str, redirect: &str, more: &[(&str, &str)]) -> String {
    let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, VERIFIER.as_bytes()));
    let usual = [
        ("response_type", "code"),
        ("client_id", client),
        ("redirect_uri", redirect),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
        ("scope", "tools:read"),
        ("state", "s t&=ate"),
        ("resource", RESOURCE),
    ];
    let mut text = Serializer::new(String::new());
    for (name, value) in usual {
        match more.iter().find(|(other, _)| *other == name) {
            Some(_) => {}
            None => drop(text.append_pair(name, value)),
        }
    }
    text.extend_pairs(more.iter().filter(|(_, value)| !value.is_empty()));
    text.finish()
}

pub async fn sent(to: SocketAddr, verb: &str, path: &str, headers: &[(&str, &str)], body: String) -> Reply {
    let mut all = headers.to_vec();
    if !headers.iter().any(|(name, _)| *name == "host") {
        all.push(("host", "mcp.example.com"));
    }
    let mut answer = request(to, verb, path, &all, body).await;
    let text = String::from_utf8(answer.bytes().await.to_vec()).expect("text");
    Reply { status: answer.status, text, answer }
}

pub async fn get(to: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Reply {
    sent(to, "GET", path, headers, String::new()).await
}

pub async fn post_json(to: SocketAddr, path: &str, body: &Value) -> Reply {
    sent(to, "POST", path, &[("content-type", "application/json")], body.to_string()).await
}

pub async fn post_form(to: SocketAddr, path: &str, headers: &[(&str, &str)], form: &[(&str, &str)]) -> Reply {
    let mut all = vec![("content-type", "application/x-www-form-urlencoded")];
    all.extend(headers);
    let body = Serializer::new(String::new()).extend_pairs(form).finish();
    sent(to, "POST", path, &all, body).await
}

/// A person at a browser.
pub struct Browser {
    pub pod: SocketAddr,
    user: String,
    pub jar: BTreeMap<String, String>,
}

impl Browser {
    fn cookies(&self) -> String {
        self.jar.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ")
    }

    fn keep(&mut self, reply: &Reply) {
        for cookie in reply.answer.headers.get_all("set-cookie") {
            let text = cookie.to_str().expect("cookies are ASCII");
            assert!(
                text.contains("HttpOnly") && text.contains("SameSite=Lax") && text.contains("; Secure"),
                "{text}"
            );
            let (name, value) =
                text.split(';').next().and_then(|pair| pair.split_once('=')).expect("a cookie");
            assert!(name.starts_with("__Host-"), "{name}");
            self.jar.insert(name.to_owned(), value.to_owned());
        }
    }

    pub async fn get(&mut self, path: &str) -> Reply {
        let cookies = self.cookies();
        let headers: &[_] = if cookies.is_empty() { &[] } else { &[("cookie", &*cookies)] };
        let reply = get(self.pod, path, headers).await;
        self.keep(&reply);
        reply
    }

    pub async fn post(&mut self, path: &str, form: &[(&str, &str)], headers: &[(&str, &str)]) -> Reply {
        let cookies = self.cookies();
        let mut all = vec![("cookie", &*cookies)];
        all.extend(headers);
        let reply = post_form(self.pod, path, &all, form).await;
        self.keep(&reply);
        reply
    }

    /// The provider's answer to a redirect there: the path of the callback.
    pub async fn at_provider(&self, to: &str) -> String {
        let url = Url::parse(to).expect("the provider's URL");
        let provider = format!("{}:{}", url.host_str().expect("a host"), url.port().expect("a port"));
        let path = format!("/allow?{}&user={}", url.query().unwrap_or_default(), self.user);
        let back = request(provider.parse().expect("an address"), "GET", &path, &[], "").await;
        let back = Url::parse(back.header("location").expect("it sends back")).expect("a URL");
        assert_eq!(back.origin().ascii_serialization(), ORIGIN);
        format!("{}?{}", back.path(), back.query().unwrap_or_default())
    }

    /// The consent page for an authorization request, by a login at the provider.
    pub async fn log_in(&mut self, query: &str) -> Reply {
        self.log_in_to(&format!("/authorize?{query}")).await
    }

    pub async fn log_in_to(&mut self, path: &str) -> Reply {
        let away = self.get(path).await;
        assert_eq!(away.status, 303, "{}", away.text);
        let callback = self.at_provider(away.location()).await;
        let back = self.get(&callback).await;
        assert_eq!((back.status, back.location()), (303, path), "{}", back.text);
        self.get(path).await
    }

    pub async fn decide(&mut self, page: &Reply, decision: &str) -> Reply {
        let ticket = page.field("ticket");
        self.post("/authorize", &[("ticket", &ticket), ("decision", decision)], &[("origin", ORIGIN)]).await
    }
}
