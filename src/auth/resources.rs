//! What tokens are for: each profile is a resource of its own, named by its URL (RFC 8707).

use std::sync::Arc;
use url::Url;

/// The scopes that are enough to come in, by profile (`""`: the default one); `None`: there is no such profile.
pub type Profiles = Arc<dyn Fn(&str) -> Option<Vec<String>> + Send + Sync>;

/// The resources of a gateway.
#[derive(Clone)]
pub struct Resources {
    /// Scheme, host and port, without a path.
    base: Url,
    /// Paths of the default profile: `/mcp` and the configured one.
    paths: Vec<String>,
    profiles: Profiles,
}

/// One profile as a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Exactly what stands in a token's `aud`.
    pub url: String,
    /// `""`: the default profile.
    pub profile: String,
    /// What a token gets that asks for no scopes.
    pub scopes: Vec<String>,
}

impl Resources {
    pub fn new(base: Url, public_path: Option<&str>, profiles: Profiles) -> Resources {
        let paths = public_path.into_iter().chain(["/mcp"]).map(|path| path.trim_end_matches('/').to_owned());
        Resources { base, paths: paths.collect(), profiles }
    }

    /// The resource of a URL, whatever the case of its host and with or without a slash at its end: some clients write it
    /// so. `None`: it is none of ours.
    pub fn find(&self, asked: &str) -> Option<Resource> {
        let url = Url::parse(asked).ok()?;
        let bare = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
        if !bare || url.password().is_some() || url.origin() != self.base.origin() {
            return None;
        }
        let path = url.path().strip_suffix('/').unwrap_or(url.path());
        let below = |base: &String| path.strip_prefix(base.as_str());
        let rest = self.paths.iter().find_map(|base| below(base).filter(|rest| fits(rest)))?;
        let profile = rest.strip_prefix('/').unwrap_or_default();
        let scopes = (self.profiles)(profile)?;
        Some(Resource { url: self.url(path), profile: profile.to_owned(), scopes })
    }

    /// The resource of a client that names none: the default profile.
    pub fn default(&self) -> Option<Resource> {
        self.find(&self.url(self.paths.first()?))
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base.origin().ascii_serialization())
    }
}

/// Nothing, or one name below the endpoint.
fn fits(rest: &str) -> bool {
    rest.is_empty() || rest.strip_prefix('/').is_some_and(|name| !name.is_empty() && !name.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_exactly_one_profile_here() {
        let profiles = |name: &str| match name {
            "" => Some(vec![]),
            "dev" => Some(vec!["dev".to_owned()]),
            _ => None,
        };
        let base = Url::parse("https://mcp.example.com").unwrap();
        let resources = Resources::new(base, Some("/plasm/mcp"), Arc::new(profiles));
        let found = |url: &str| resources.find(url).map(|resource| (resource.url, resource.profile));
        let ours = [
            ("https://mcp.example.com/mcp", "https://mcp.example.com/mcp", ""),
            ("https://MCP.example.com:443/mcp/", "https://mcp.example.com/mcp", ""),
            ("https://mcp.example.com/mcp/dev", "https://mcp.example.com/mcp/dev", "dev"),
            ("https://mcp.example.com/plasm/mcp/dev", "https://mcp.example.com/plasm/mcp/dev", "dev"),
        ];
        for (asked, url, profile) in ours {
            assert_eq!(found(asked), Some((url.to_owned(), profile.to_owned())), "{asked}");
        }
        for foreign in [
            "http://mcp.example.com/mcp",
            "https://mcp.example.com:8443/mcp",
            "https://mcp.example.com/mcp/other",
            "https://mcp.example.com/mcp/dev/sse",
            "https://mcp.example.com/",
            "https://mcp.example.com/mcpx",
            "https://evil.example/mcp",
            "https://u@mcp.example.com/mcp",
            "https://mcp.example.com/mcp?x",
            "https://mcp.example.com/mcp#x",
            "mcp",
        ] {
            assert_eq!(found(foreign), None, "{foreign}");
        }
        assert_eq!(resources.default().unwrap().url, "https://mcp.example.com/plasm/mcp");
    }
}
