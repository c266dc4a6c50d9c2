//! An authorization request (RFC 6749 4.1.1, 7636, 8707): what a client wants, and where to say why it cannot have it.

use super::clients::{Client, UnknownClient};
use super::redirects::{Known, is_same};
use super::{OFFLINE, Server};
use crate::auth::form::Form;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use url::Url;

/// Longest `state`, in bytes.
const LONGEST_STATE: usize = 4096;

/// A request that can be granted, if its user will.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wanted {
    pub client: String,
    /// The client's name, or its host.
    pub name: String,
    /// As it stands in the request, byte for byte.
    pub redirect: String,
    /// As the client registered it.
    pub registered: String,
    pub trusted: bool,
    pub state: Option<String>,
    /// PKCE's, S256.
    pub challenge: String,
    pub resource: String,
    pub profile: String,
    pub scope: String,
    pub refresh: bool,
}

/// Why a request cannot be granted, and who is told.
#[derive(Debug, PartialEq)]
pub enum Misguided {
    /// The person: the client, or its address, is not known to be one (RFC 6749 4.1.2.1).
    Person(StatusCode, String),
    /// The client, at its address.
    Client { to: Return, error: &'static str, why: &'static str },
}

/// Where an answer goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Return {
    pub redirect: String,
    pub state: Option<String>,
    /// Whether browsers are sent there without their user's doing.
    pub trusted: bool,
}

impl Wanted {
    pub fn back(&self) -> Return {
        Return { redirect: self.redirect.clone(), state: self.state.clone(), trusted: self.trusted }
    }
}

impl Return {
    /// The address with an answer's parameters, `state` and `iss` among them (RFC 9207 2), on success and on error.
    pub fn url(&self, issuer: &str, parameters: &[(&str, &str)]) -> String {
        // The registered bytes stay: only what follows them is ours.
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(parameters);
        if let Some(state) = &self.state {
            query.append_pair("state", state);
        }
        query.append_pair("iss", issuer);
        let joint = match self.redirect.split_once('?') {
            None => "?",
            Some((_, "")) => "",
            Some(_) => "&",
        };
        format!("{}{joint}{}", self.redirect, query.finish())
    }
}

impl Server {
    /// What a request asks for.
    pub(super) async fn wanted(&self, form: &Form) -> Result<Wanted, Misguided> {
        let person = |why: &str| Misguided::Person(StatusCode::BAD_REQUEST, why.to_owned());
        let id = form.get("client_id").ok_or_else(|| person("The app did not say who it is."))?;
        let client = self.clients.find(id).await.map_err(unknown)?;
        let (redirect, registered) = address(&client, form.get("redirect_uri")).ok_or_else(|| {
            person("The address that the answer would go to is not one that the app registered.")
        })?;
        // Also of clients that registered under another policy.
        let known = self.policy.admit(&redirect);
        let known =
            known.map_err(|_| person("The address that the answer would go to is not admitted here."))?;
        let state = form.get("state").map(str::to_owned);
        let trusted = known == Known::Trusted;
        let to = Return { redirect: redirect.clone(), state: state.clone(), trusted };
        let client_is_told = |error, why| Misguided::Client { to: to.clone(), error, why };
        if state.as_ref().is_some_and(|state| state.len() > LONGEST_STATE) {
            let to = Return { state: None, ..to.clone() };
            return Err(Misguided::Client { to, error: "invalid_request", why: "state is too long" });
        }
        for (name, error) in
            [("request", "request_not_supported"), ("request_uri", "request_uri_not_supported")]
        {
            if form.get(name).is_some() {
                return Err(client_is_told(error, "requests are given as parameters here"));
            }
        }
        match form.get("response_type") {
            Some("code") => {}
            Some(_) => return Err(client_is_told("unsupported_response_type", "response_type must be code")),
            None => return Err(client_is_told("invalid_request", "response_type is missing")),
        }
        if form.get("response_mode").is_some_and(|mode| mode != "query") {
            return Err(client_is_told("invalid_request", "response_mode must be query"));
        }
        let challenge = form.get("code_challenge").ok_or_else(|| {
            client_is_told("invalid_request", "code_challenge is missing: PKCE is needed (RFC 7636)")
        })?;
        // Without a method, it would be `plain`.
        if form.get("code_challenge_method") != Some("S256") {
            return Err(client_is_told("invalid_request", "code_challenge_method must be S256"));
        }
        if !is_challenge(challenge) {
            return Err(client_is_told("invalid_request", "code_challenge is no SHA-256 in base64url"));
        }
        let resource = match form.all("resource") {
            [] => self.resources.default(),
            [one] => self.resources.find(one),
            _ => None,
        };
        let resource = resource.ok_or_else(|| {
            client_is_told("invalid_target", "resource must be the URL of one MCP endpoint of this gateway")
        })?;
        if form.get("prompt").is_some_and(|prompt| prompt.split(' ').any(|word| word == "none")) {
            return Err(client_is_told("interaction_required", "a person must agree"));
        }
        let scope = form.get("scope").unwrap_or_default();
        let offline = scope.split(' ').any(|word| word == OFFLINE);
        Ok(Wanted {
            name: client.title(),
            refresh: offline || !client.once,
            client: client.id,
            redirect,
            registered,
            trusted,
            state,
            challenge: challenge.to_owned(),
            scope: self.granted(scope, &resource).to_string(),
            resource: resource.url,
            profile: resource.profile,
        })
    }
}

/// The request's address and the registered one that it is; where it gives none, the only one.
fn address(client: &Client, asked: Option<&str>) -> Option<(String, String)> {
    match (asked, client.redirects.as_slice()) {
        (Some(asked), all) => {
            let known = all.iter().find(|known| is_same(known, asked))?;
            Some((asked.to_owned(), known.clone()))
        }
        (None, [only]) => Some((only.clone(), only.clone())),
        (None, _) => None,
    }
}

fn unknown(why: UnknownClient) -> Misguided {
    let (status, text) = match why {
        UnknownClient::Unread => (
            StatusCode::BAD_GATEWAY,
            "The app's description of itself cannot be read at the moment. Try again soon.",
        ),
        UnknownClient::Document => (StatusCode::BAD_REQUEST, "The app's description of itself is not valid."),
        UnknownClient::Refused => (
            StatusCode::BAD_REQUEST,
            "The app says that its description is at an address that is not read here.",
        ),
        UnknownClient::Revoked => (StatusCode::UNAUTHORIZED, "The app's registration was revoked."),
        UnknownClient::Unknown => (
            StatusCode::UNAUTHORIZED,
            "The app is not known here. Remove this server from it and add it again, so that it registers anew.",
        ),
    };
    Misguided::Person(status, text.to_owned())
}

/// 43 characters: SHA-256 in base64url without padding (RFC 7636 4.2).
fn is_challenge(text: &str) -> bool {
    text.len() == 43 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// Where a page sends a browser: only what a redirect address may be, whatever it was put together from.
pub fn is_address(to: &str) -> bool {
    Url::parse(to).is_ok_and(|url| matches!(url.scheme(), "http" | "https" | "cursor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_keeps_the_registered_bytes_and_says_whose_it_is() {
        let to = |redirect: &str, state: Option<&str>| {
            let back =
                Return { redirect: redirect.to_owned(), state: state.map(str::to_owned), trusted: true };
            back.url("https://i.example", &[("code", "c")])
        };
        let iss = "iss=https%3A%2F%2Fi.example";
        assert_eq!(to("https://a.example/cb/", None), format!("https://a.example/cb/?code=c&{iss}"));
        assert_eq!(
            to("http://localhost:1/cb?x=%20", Some("a b&c")),
            format!("http://localhost:1/cb?x=%20&code=c&state=a+b%26c&{iss}")
        );
        assert_eq!(to("https://a.example/cb?", None), format!("https://a.example/cb?code=c&{iss}"));
    }

    #[test]
    fn a_challenge_is_a_sha256() {
        assert!(is_challenge("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"));
        for bad in ["", "short", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw+cM", &"a".repeat(128)] {
            assert!(!is_challenge(bad), "{bad}");
        }
    }
}
