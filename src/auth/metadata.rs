//! The URLs under which profiles are OAuth resources (RFC 8707, RFC 9728), and what is said about them: metadata, challenges. It
//! takes them from the configuration, never from a request's `Host`.

use super::pages::{self, Asked, Pages, Readers};
use crate::mcp::Scopes;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::header::{self, HeaderValue};
use http::{Method, Response, StatusCode};
use serde_json::json;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

/// Where the metadata of the resource at a path begins (RFC 9728 3.1).
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
/// Where the endpoint is without a public path.
const ENDPOINT: &str = "/mcp";
/// Asked for by clients for themselves; nothing here needs it (PROTOCOL, *Browsers*).
const OFFLINE: &str = "offline_access";

/// What is said of the resources.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Scheme, host and port, as clients reach them.
    pub origin: String,
    /// A second path of the endpoint; then it is the one that is told.
    pub public_path: Option<String>,
    /// Identifiers of the authorisation servers whose tokens are taken.
    pub servers: Vec<String>,
    /// The scopes that a client needs to come in, by the profiles that are served; `""` is the default one.
    pub profiles: HashMap<Arc<str>, Scopes>,
    /// Further scopes that clients are told of.
    pub scopes: Scopes,
    pub name: String,
}

/// What is said of a gateway's resources, one for each profile. Its pages are their metadata documents.
pub struct Metadata {
    about: About,
    /// The paths of the default profile's endpoint, the one that is told first.
    roots: Vec<String>,
}

impl Metadata {
    pub fn new(about: About) -> Metadata {
        let public = about.public_path.iter().map(|path| path.trim_end_matches('/').to_owned());
        let mut roots: Vec<String> = public.filter(|path| !path.is_empty()).collect();
        if !roots.iter().any(|root| root == ENDPOINT) {
            roots.push(ENDPOINT.to_owned());
        }
        // As clients write it: in lower case, without the scheme's own port (RFC 3986 6.2).
        let origin = url::Url::parse(&about.origin).map(|url| url.origin().ascii_serialization());
        let origin = origin.unwrap_or_else(|_| about.origin.clone());
        Metadata { about: About { origin, ..about }, roots }
    }

    /// Scheme, host and port, as clients write them.
    pub fn origin(&self) -> &str {
        &self.about.origin
    }

    /// All scopes that anything here asks for, or that clients are told of.
    pub fn offered(&self) -> BTreeSet<String> {
        let profiles = self.about.profiles.values().flat_map(Scopes::iter);
        profiles
            .chain(self.about.scopes.iter())
            .filter(|scope| *scope != OFFLINE)
            .map(str::to_owned)
            .collect()
    }

    /// The path of the default profile that clients are told.
    pub fn root(&self) -> &str {
        &self.roots[0]
    }

    /// The scopes that a client needs to enter a profile.
    pub fn needs(&self, profile: &str) -> impl Iterator<Item = &str> {
        self.about.profiles.get(profile).into_iter().flat_map(Scopes::iter)
    }

    /// The URLs that a token for a profile may name as its audience: a slash at the end, and by which of its paths the profile is
    /// called, tell no two resources apart.
    pub fn audiences(&self, profile: &str) -> Vec<String> {
        let forms = self.roots.iter().map(|root| join(root, profile));
        forms
            .flat_map(|path| {
                [format!("{}{path}", self.about.origin), format!("{}{path}/", self.about.origin)]
            })
            .collect()
    }

    /// The path of the endpoint that a request's path is, or is below, as the client wrote it: the one that its metadata names.
    /// `None`: below none.
    pub fn endpoint(&self, path: &str) -> Option<(String, Arc<str>)> {
        let (bare, slash) = match path.strip_suffix('/') {
            Some(bare) => (bare, "/"),
            None => (path, ""),
        };
        // HTTP+SSE is another way into the same endpoint.
        let of = ["/sse", "/message"].iter().find_map(|pair| bare.strip_suffix(pair));
        let (bare, slash) = of.map_or((bare, slash), |of| (of, ""));
        let own = &self.roots[0];
        let bare = if of.is_some() && bare.is_empty() { own.as_str() } else { bare };
        let rest = self.roots.iter().find_map(|root| {
            bare.strip_prefix(root.as_str()).filter(|rest| rest.is_empty() || rest.starts_with('/'))
        })?;
        let profile = rest.strip_prefix('/').unwrap_or(rest);
        let (profile, _) = self.about.profiles.get_key_value(profile)?;
        (!rest.starts_with("//") && rest != "/").then(|| (format!("{bare}{slash}"), profile.clone()))
    }

    /// `WWW-Authenticate` (RFC 6750 3, RFC 9728 5.1): where to learn how to log in, which scopes to ask for, and what was wrong.
    /// `path`: the request's, where it is at hand.
    pub fn challenge(
        &self,
        profile: &str,
        path: Option<&str>,
        scopes: &Scopes,
        wrong: Option<Wrong>,
    ) -> HeaderValue {
        let path = path.and_then(|path| self.endpoint(path)).map(|(path, _)| path);
        let path = path.unwrap_or_else(|| join(&self.roots[0], profile));
        let mut text = format!("Bearer resource_metadata=\"{}{WELL_KNOWN}{path}\"", self.about.origin);
        let scopes: Scopes = scopes.iter().filter(|scope| *scope != OFFLINE).map(Arc::from).collect();
        if !scopes.is_empty() {
            let _ = write!(text, ", scope=\"{}\"", quoted(&scopes.to_string()));
        }
        if let Some(Wrong { error, why }) = wrong {
            let _ = write!(text, ", error=\"{error}\", error_description=\"{}\"", quoted(why));
        }
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("Bearer"))
    }

    /// Whose metadata is at a path.
    fn described(&self, path: &str) -> Option<(String, Arc<str>)> {
        match path.strip_prefix(WELL_KNOWN)? {
            "" | "/" => Some((self.roots[0].clone(), Arc::from(""))),
            rest => self.endpoint(rest),
        }
    }

    /// The metadata document of the profile at this path (RFC 9728 2).
    fn document(&self, path: &str, profile: &str) -> Bytes {
        let About { origin, servers, profiles, scopes, name, .. } = &self.about;
        let needed = profiles.get(profile).into_iter().flat_map(Scopes::iter);
        let scopes: BTreeSet<&str> = needed.chain(scopes.iter()).filter(|scope| *scope != OFFLINE).collect();
        let mut document = json!({
            "resource": format!("{origin}{path}"),
            "bearer_methods_supported": ["header"],
            "resource_name": name,
        });
        if !servers.is_empty() {
            document["authorization_servers"] = json!(servers);
        }
        if !scopes.is_empty() {
            document["scopes_supported"] = json!(scopes);
        }
        document.to_string().into()
    }
}

impl Pages for Metadata {
    fn readers(&self, path: &str) -> Option<Readers> {
        self.described(path).map(|_| Readers::Programs)
    }

    fn answer(self: Arc<Self>, asked: Asked) -> BoxFuture<'static, Response<Bytes>> {
        let response = match self.described(&asked.path) {
            Some((path, profile)) if matches!(asked.verb, Method::GET | Method::HEAD) => {
                let document = self.document(&path, &profile);
                let mut response = pages::answer(StatusCode::OK, "application/json", document);
                let minutes = HeaderValue::from_static("public, max-age=300");
                response.headers_mut().insert(header::CACHE_CONTROL, minutes);
                response
            }
            Some(_) => pages::not_allowed("GET, HEAD, OPTIONS"),
            None => pages::answer(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "no such resource\n"),
        };
        futures_util::future::ready(response).boxed()
    }
}

/// What a challenge says was wrong.
#[derive(Clone, Copy, Debug)]
pub struct Wrong {
    /// RFC 6750 3.1.
    pub error: &'static str,
    pub why: &'static str,
}

fn join(root: &str, profile: &str) -> String {
    if profile.is_empty() { root.to_owned() } else { format!("{root}/{profile}") }
}

/// What may stand between quotes (RFC 6749 Appendix A).
fn quoted(text: &str) -> String {
    text.chars().filter(|c| matches!(c, ' '..='~') && !matches!(c, '"' | '\\')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(public_path: Option<&str>) -> Metadata {
        let profiles =
            [("", ""), ("dev", "dev:enter")].map(|(name, scopes)| (name.into(), Scopes::read(scopes)));
        Metadata::new(About {
            origin: "https://MCP.example.com:443".into(),
            public_path: public_path.map(Into::into),
            servers: vec!["https://as.example".into()],
            profiles: profiles.into_iter().collect(),
            scopes: Scopes::read("mcp:call offline_access"),
            name: "Tools".into(),
        })
    }

    #[test]
    fn each_path_form_has_metadata_that_names_the_url_it_is_for() {
        let plain = metadata(None);
        let cases = [
            ("", Some("/mcp")),
            ("/", Some("/mcp")),
            ("/mcp", Some("/mcp")),
            ("/mcp/", Some("/mcp/")),
            ("/mcp/dev", Some("/mcp/dev")),
            ("/mcp/dev/", Some("/mcp/dev/")),
            ("/mcp/dev/sse", Some("/mcp/dev")),
            ("/mcp/sse", Some("/mcp")),
            ("/sse", Some("/mcp")),
            ("/mcp/nope", None),
            ("/mcp//dev", None),
            ("/mcp//", None),
            ("/mcpx", None),
            ("/plasm/mcp", None),
            ("/mcp/dev/x", None),
        ];
        for (path, want) in cases {
            let found = plain.described(&format!("{WELL_KNOWN}{path}")).map(|(path, _)| path);
            assert_eq!(found.as_deref(), want, "{path}");
        }
        let public = metadata(Some("/plasm/mcp"));
        for (path, want) in
            [("", "/plasm/mcp"), ("/plasm/mcp/dev", "/plasm/mcp/dev"), ("/mcp/dev/", "/mcp/dev/")]
        {
            let found = public.described(&format!("{WELL_KNOWN}{path}")).map(|(path, _)| path);
            assert_eq!(found.as_deref(), Some(want), "{path}");
        }
    }

    #[test]
    fn a_document_says_what_rfc_9728_asks_and_no_more() {
        let document: serde_json::Value =
            serde_json::from_slice(&metadata(None).document("/mcp/dev", "dev")).unwrap();
        assert_eq!(
            document,
            json!({
                "resource": "https://mcp.example.com/mcp/dev",
                "authorization_servers": ["https://as.example"],
                "bearer_methods_supported": ["header"],
                "resource_name": "Tools",
                "scopes_supported": ["dev:enter", "mcp:call"],
            })
        );
    }

    #[test]
    fn a_profile_is_one_resource_by_each_of_its_paths_and_no_other_profiles() {
        let public = metadata(Some("/plasm/mcp"));
        let dev = public.audiences("dev");
        assert_eq!(
            dev,
            [
                "https://mcp.example.com/plasm/mcp/dev",
                "https://mcp.example.com/plasm/mcp/dev/",
                "https://mcp.example.com/mcp/dev",
                "https://mcp.example.com/mcp/dev/"
            ]
        );
        assert!(!public.audiences("").iter().any(|audience| dev.contains(audience)));
    }

    #[test]
    fn a_challenge_names_the_metadata_the_scopes_and_what_was_wrong() {
        let said = metadata(None).challenge(
            "dev",
            Some("/mcp/dev/"),
            &Scopes::read("dev:enter offline_access"),
            Some(Wrong { error: "invalid_token", why: "it \"has\" ended" }),
        );
        assert_eq!(
            said.to_str().unwrap(),
            "Bearer resource_metadata=\"https://mcp.example.com/.well-known/oauth-protected-resource/mcp/dev/\", \
             scope=\"dev:enter\", error=\"invalid_token\", error_description=\"it has ended\""
        );
    }
}
