//! What our tokens are for: each profile is a resource of its own, named by its URL (RFC 8707).

use super::metadata::Metadata;
use std::sync::Arc;
use url::Url;

/// The resources of a gateway.
#[derive(Clone)]
pub struct Resources(Arc<Metadata>);

/// One profile as a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Exactly what stands in a token's `aud`.
    pub url: String,
    /// `""`: the default profile.
    pub profile: String,
    /// What it takes to come in, and so what a token gets that asks for no scopes.
    pub scopes: Vec<String>,
}

impl Resources {
    pub fn new(metadata: Arc<Metadata>) -> Resources {
        Resources(metadata)
    }

    /// The resource of a URL, whatever the case of its host and with or without a slash at its end: some clients write it
    /// so. `None`: it is none of ours.
    pub fn find(&self, asked: &str) -> Option<Resource> {
        let url = Url::parse(asked).ok()?;
        let bare = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
        if !bare || url.password().is_some() || url.origin().ascii_serialization() != self.0.origin() {
            return None;
        }
        let (path, profile) = self.0.endpoint(url.path())?;
        let url = format!("{}{}", self.0.origin(), path.trim_end_matches('/'));
        let scopes = self.0.needs(&profile).map(str::to_owned).collect();
        Some(Resource { url, profile: profile.to_string(), scopes })
    }

    /// The resource of a client that names none: the default profile.
    pub fn default(&self) -> Option<Resource> {
        self.find(&format!("{}{}", self.0.origin(), self.0.root()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::metadata::About;
    use crate::mcp::Scopes;

    #[test]
    fn a_resource_is_exactly_one_profile_here() {
        let profiles = [("", ""), ("dev", "dev")].map(|(name, scopes)| (name.into(), Scopes::read(scopes)));
        let resources = Resources::new(Arc::new(Metadata::new(About {
            origin: "https://mcp.example.com".into(),
            public_path: Some("/plasm/mcp".into()),
            profiles: profiles.into_iter().collect(),
            ..About::default()
        })));
        let found = |url: &str| resources.find(url).map(|resource| (resource.url, resource.profile));
        let ours = [
            ("https://mcp.example.com/mcp", "https://mcp.example.com/mcp", ""),
            ("https://MCP.example.com:443/mcp/", "https://mcp.example.com/mcp", ""),
            ("https://mcp.example.com/mcp/dev", "https://mcp.example.com/mcp/dev", "dev"),
            ("https://mcp.example.com/plasm/mcp/dev", "https://mcp.example.com/plasm/mcp/dev", "dev"),
            ("https://mcp.example.com/mcp/dev/sse", "https://mcp.example.com/mcp/dev", "dev"),
        ];
        for (asked, url, profile) in ours {
            assert_eq!(found(asked), Some((url.to_owned(), profile.to_owned())), "{asked}");
        }
        for foreign in [
            "http://mcp.example.com/mcp",
            "https://mcp.example.com:8443/mcp",
            "https://mcp.example.com/mcp/other",
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
