//! Token endpoints: how a client says who it is, and what it is given (RFC 6749 2.3 and 5, RFC 7523).

use super::held::Sealable;
use crate::auth::now;
use crate::egress::{Egress, FetchError, Named};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Request, StatusCode};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;
use std::sync::Arc;
use url::form_urlencoded::{Serializer as Form, byte_serialize};

/// How long a client's assertion holds, in seconds.
const ASSERTION: u64 = 60;
/// The longest life of a token that is believed, in seconds: a year.
const LONGEST: u64 = 365 * 24 * 3600;

/// A client of an authorisation server.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Client {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Sealable>,
    pub method: Method,
    /// What it signs with, where it does; the configuration's, and never written.
    #[serde(skip)]
    pub signer: Option<Signer>,
}

/// How a client says who it is (`token_endpoint_auth_method`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Method {
    #[serde(rename = "none")]
    None,
    #[serde(rename = "client_secret_basic")]
    Basic,
    #[serde(rename = "client_secret_post")]
    Post,
    #[serde(rename = "private_key_jwt")]
    Jwt,
}

#[derive(Clone)]
pub(super) struct Signer {
    pub key: Arc<EncodingKey>,
    pub algorithm: Algorithm,
}

/// What a token endpoint gives (RFC 6749 5.1).
#[derive(Deserialize)]
pub(super) struct Given {
    pub access_token: String,
    token_type: String,
    #[serde(default, deserialize_with = "seconds")]
    pub expires_in: Option<u64>,
    #[serde(default)]
    pub refresh_token: Option<String>,
}

/// Some servers write the number as text.
fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f64),
        Text(String),
        Null,
    }
    let seconds = match Written::deserialize(from)? {
        Written::Number(number) => Some(number.max(0.0) as u64),
        Written::Text(text) => text.trim().parse().ok(),
        Written::Null => None,
    };
    Ok(seconds.map(|seconds| seconds.min(LONGEST)))
}

/// Why a token endpoint gave nothing. The texts are for logs, and hold nothing that the server wrote but its error's code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failed {
    /// What was shown (a code, a refresh token) holds no longer.
    #[error("the grant holds no longer")]
    Dead,
    /// The client, or what it asked for, is refused.
    #[error("the authorisation server refuses the client: {0}")]
    Refused(String),
    #[error("the authorisation server cannot be used: {0}")]
    Unreachable(String),
}

impl From<FetchError> for Failed {
    fn from(error: FetchError) -> Failed {
        Failed::Unreachable(error.to_string())
    }
}

/// Asks a token endpoint. `audience`: whom a client's assertion is for, the issuer where it is known (RFC 7523 3).
pub(super) async fn ask(
    egress: &Egress,
    named: Named,
    endpoint: &str,
    client: &Client,
    audience: &str,
    parameters: &[(&str, &str)],
) -> Result<Given, Failed> {
    let answer = egress.send(request(endpoint, client, audience, parameters)?, named).await?;
    if answer.status.is_success() {
        let given: Given = serde_json::from_slice(&answer.body)
            .map_err(|_| Failed::Unreachable("its answer holds no token".into()))?;
        return match given.token_type.eq_ignore_ascii_case("bearer") && !given.access_token.is_empty() {
            true => Ok(given),
            false => Err(Failed::Refused("a token of a type that is not spoken here".into())),
        };
    }
    #[derive(Deserialize)]
    struct Error {
        error: String,
    }
    let code = serde_json::from_slice::<Error>(&answer.body).map(|said| said.error).unwrap_or_default();
    Err(match (code.as_str(), answer.status) {
        ("invalid_grant", _) => Failed::Dead,
        ("temporarily_unavailable" | "server_error" | "slow_down", _)
        | (_, StatusCode::TOO_MANY_REQUESTS)
        | ("", _) => Failed::Unreachable(format!("status {}", answer.status.as_u16())),
        (_, status) if status.is_server_error() => Failed::Unreachable(format!("status {}", status.as_u16())),
        (code, _) => Failed::Refused(word(code)),
    })
}

/// Tells a revocation endpoint that a token is not needed any more (RFC 7009). Whether it listens is its own affair.
pub(super) async fn revoke(
    egress: &Egress,
    named: Named,
    endpoint: &str,
    client: &Client,
    issuer: &str,
    token: &str,
) {
    let Ok(request) = request(endpoint, client, issuer, &[("token", token)]) else { return };
    if let Err(why) = egress.send(request, named).await {
        tracing::info!(%why, "an upstream's authorisation server was not told of a revoked token");
    }
}

fn request(
    endpoint: &str,
    client: &Client,
    audience: &str,
    parameters: &[(&str, &str)],
) -> Result<Request<Bytes>, Failed> {
    let mut form = Form::new(String::new());
    form.extend_pairs(parameters);
    let mut basic = None;
    match (client.method, &client.secret, &client.signer) {
        (Method::Basic, Some(secret), _) => {
            // Both are encoded as in a form before they are joined (RFC 6749 2.3.1).
            let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
            let pair = format!("{}:{}", encoded(&client.id), encoded(secret.expose()));
            let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair)))
                .expect("base64 has only characters of a header");
            value.set_sensitive(true);
            basic = Some(value);
        }
        (Method::Jwt, _, Some(signer)) => {
            let assertion = assertion(&client.id, audience, signer)?;
            form.append_pair("client_id", &client.id);
            form.append_pair(
                "client_assertion_type",
                "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
            );
            form.append_pair("client_assertion", &assertion);
        }
        (method, secret, _) => {
            form.append_pair("client_id", &client.id);
            if let (Method::Post, Some(secret)) = (method, secret) {
                form.append_pair("client_secret", secret.expose());
            }
        }
    }
    let mut request = Request::post(endpoint)
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(ACCEPT, "application/json")
        .body(Bytes::from(form.finish()))
        .map_err(|_| Failed::Unreachable("its token endpoint is no URL".into()))?;
    if let Some(value) = basic {
        request.headers_mut().insert(AUTHORIZATION, value);
    }
    Ok(request)
}

/// The client's word that it is itself, for one use (RFC 7523 3).
fn assertion(id: &str, audience: &str, signer: &Signer) -> Result<String, Failed> {
    let mut number = [0; 16];
    aws_lc_rs::rand::fill(&mut number).expect("the system's random source does not fail once it is seeded");
    let now = now();
    let claims = json!({
        "iss": id, "sub": id, "aud": audience, "iat": now, "exp": now + ASSERTION,
        "jti": URL_SAFE_NO_PAD.encode(number),
    });
    jsonwebtoken::encode(&Header::new(signer.algorithm), &claims, &signer.key)
        .map_err(|_| Failed::Refused("private_key does not sign with signing_algorithm".into()))
}

/// An error's code, as far as it is one (RFC 6749 5.2).
fn word(code: &str) -> String {
    code.chars().filter(|c| c.is_ascii_alphanumeric() || "_-.".contains(*c)).take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(method: Method, secret: Option<&str>) -> Client {
        let secret = secret.map(|text| Sealable::from(text.to_owned()));
        Client { id: "a b".into(), secret, method, signer: None }
    }

    #[test]
    fn a_client_says_who_it_is_in_the_way_that_the_server_takes() {
        let table = [
            (client(Method::Basic, Some("s:1")), Some("Basic YStiOnMlM0Ex"), "grant_type=x"),
            (client(Method::Post, Some("s:1")), None, "grant_type=x&client_id=a+b&client_secret=s%3A1"),
            (client(Method::None, None), None, "grant_type=x&client_id=a+b"),
            (client(Method::None, Some("s")), None, "grant_type=x&client_id=a+b"),
        ];
        for (client, header, body) in table {
            let request = request("https://a.example/token", &client, "", &[("grant_type", "x")]).unwrap();
            let shown = request.headers().get(AUTHORIZATION).map(|value| value.to_str().unwrap());
            assert_eq!((shown, request.body()), (header, &Bytes::from(body)), "{:?}", client.method);
        }
    }

    #[test]
    fn a_life_is_read_in_each_form_that_servers_write() {
        for (text, want) in [
            (r#","expires_in":3600"#, Some(3600)),
            (r#","expires_in":"60""#, Some(60)),
            (r#","expires_in":12.7"#, Some(12)),
            (r#","expires_in":-1"#, Some(0)),
            (r#","expires_in":null"#, None),
            (r#","expires_in":1e30"#, Some(LONGEST)),
            ("", None),
        ] {
            let text = format!(r#"{{"access_token":"t","token_type":"bearer"{text}}}"#);
            let given: Given = serde_json::from_str(&text).unwrap();
            assert_eq!(given.expires_in, want, "{text}");
        }
    }
}
