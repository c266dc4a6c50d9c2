//! Where an authorization response may go: which addresses a client may register, and which of its requests' are the
//! registered ones. Addresses are kept and compared as they were written, the port of loopback addresses aside.

use serde::Deserialize;
use url::{Host, Url};

/// The one private-use address that is admitted, byte for byte: Cursor's. A documented deviation from RFC 8252 7.1, whose
/// schemes are reversed domain names.
const PRIVATE: &str = "cursor://anysphere.cursor-mcp/oauth/callback";
/// Longest address, in bytes.
const LONGEST: usize = 512;

/// A vendor of clients and what is known of them, from the configuration.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Vendor {
    pub name: String,
    /// Addresses, byte for byte; `*` stands for one path segment of letters, digits, `-` and `_`.
    pub redirects: Vec<String>,
    /// Addresses of its client metadata documents.
    pub documents: Vec<String>,
}

/// Which addresses may be registered.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    pub vendors: Vec<Vendor>,
    /// Any HTTPS address besides.
    pub open: bool,
}

/// Why an address may not be registered. Said to the client, so it repeats nothing of the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("a redirect address is no absolute URL of plain ASCII")]
    Form,
    #[error("a redirect address has a fragment or user information")]
    Parts,
    #[error("a redirect address must be https, or http on loopback")]
    Scheme,
    #[error("a redirect address is not among those that are admitted here")]
    Unlisted,
}

/// How far an admitted address is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// A vendor's, or a program's on the user's own machine.
    Trusted,
    /// Any other, which `open` admits.
    Stranger,
}

impl Policy {
    /// Whether an address may be registered.
    pub fn admit(&self, address: &str) -> Result<Known, Refused> {
        if address.len() > LONGEST || !address.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') {
            return Err(Refused::Form);
        }
        if address == PRIVATE {
            return Ok(Known::Trusted);
        }
        let url = Url::parse(address).map_err(|_| Refused::Form)?;
        if address.contains('#') || !url.username().is_empty() || url.password().is_some() {
            return Err(Refused::Parts);
        }
        // What a parser makes of an odd spelling is another address than the one that is compared.
        if authority(address).is_none_or(|authority| authority.contains('@')) {
            return Err(Refused::Form);
        }
        match (url.scheme(), loopback(address)) {
            ("http", Some(_)) => Ok(Known::Trusted),
            ("https", _) if self.is_vendors(address) => Ok(Known::Trusted),
            ("https", _) if self.open && matches!(url.host(), Some(Host::Domain(_))) => Ok(Known::Stranger),
            ("https", _) => Err(Refused::Unlisted),
            _ => Err(Refused::Scheme),
        }
    }

    /// The vendor whose client metadata document is at this address.
    pub fn vendor_of(&self, document: &str) -> Option<&Vendor> {
        self.vendors.iter().find(|vendor| vendor.documents.iter().any(|known| known == document))
    }

    fn is_vendors(&self, address: &str) -> bool {
        self.vendors.iter().flat_map(|vendor| &vendor.redirects).any(|known| fits(known, address))
    }
}

/// Whether an address of a request is a registered one: the same bytes, but for the port on loopback (RFC 8252 7.3).
pub fn is_same(registered: &str, asked: &str) -> bool {
    registered == asked
        || matches!((loopback(registered), loopback(asked)), (Some(known), Some(asked)) if known == asked)
}

/// What the consent page shows of an address: its host, or its scheme where that names an app.
pub fn host(address: &str) -> String {
    match Url::parse(address) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => url.host_str().unwrap_or_default().to_owned(),
        Ok(url) => format!("{}:", url.scheme()),
        Err(_) => String::new(),
    }
}

/// Whether it leads to a program on the user's own machine, which any program there can pretend to be.
pub fn is_local(address: &str) -> bool {
    loopback(address).is_some() || address == PRIVATE
}

/// The parts of a plain HTTP address on loopback that must be equal: its host, and all from the path on.
fn loopback(address: &str) -> Option<(&str, &str)> {
    let rest = address.strip_prefix("http://")?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if is_port(port) && !host.is_empty() => host,
        Some(_) if authority != "[::1]" => return None,
        _ => authority,
    };
    matches!(host, "127.0.0.1" | "[::1]" | "localhost").then_some((host, path))
}

fn is_port(text: &str) -> bool {
    (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn authority(address: &str) -> Option<&str> {
    let (_, rest) = address.split_once("://")?;
    rest.split(['/', '?']).next().filter(|authority| !authority.is_empty())
}

/// Whether a listed address, in which `*` stands for one path segment, is this one.
fn fits(known: &str, address: &str) -> bool {
    let Some((head, tail)) = known.split_once('*') else { return known == address };
    let segment = address.strip_prefix(head).and_then(|rest| rest.strip_suffix(tail));
    segment.is_some_and(|segment| {
        !segment.is_empty() && segment.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(open: bool) -> Policy {
        let redirects = ["https://claude.ai/api/mcp/auth_callback", "https://chatgpt.com/connector/oauth/*"];
        let redirects = redirects.map(str::to_owned).to_vec();
        Policy { vendors: vec![Vendor { redirects, ..Vendor::default() }], open }
    }

    #[test]
    fn vendors_and_loopback_are_admitted_and_tricks_are_not() {
        use Known::*;
        use Refused::*;
        let table = [
            ("https://claude.ai/api/mcp/auth_callback", Ok(Trusted), Ok(Trusted)),
            ("https://claude.ai/api/mcp/auth_callback/", Err(Unlisted), Ok(Stranger)),
            ("https://claude.ai/api/mcp/auth_callback?x=1", Err(Unlisted), Ok(Stranger)),
            ("https://CLAUDE.ai/api/mcp/auth_callback", Err(Unlisted), Ok(Stranger)),
            ("https://claude.ai.evil.example/api/mcp/auth_callback", Err(Unlisted), Ok(Stranger)),
            ("https://claude.ai@evil.example/api/mcp/auth_callback", Err(Parts), Err(Parts)),
            ("https://claude.ai:443@evil.example/", Err(Parts), Err(Parts)),
            ("https://@evil.example/", Err(Form), Err(Form)),
            ("https:evil.example", Err(Form), Err(Form)),
            ("https:///evil.example", Err(Form), Err(Form)),
            ("https://claude.ai\\@evil.example/", Err(Form), Err(Form)),
            ("https://claude.ai/api/mcp/auth_callback#x", Err(Parts), Err(Parts)),
            ("https://claude.ai/api/mcp/auth_callback#", Err(Parts), Err(Parts)),
            ("https://chatgpt.com/connector/oauth/aB-3_x", Ok(Trusted), Ok(Trusted)),
            ("https://chatgpt.com/connector/oauth/", Err(Unlisted), Ok(Stranger)),
            ("https://chatgpt.com/connector/oauth/a/b", Err(Unlisted), Ok(Stranger)),
            ("https://chatgpt.com/connector/oauth/..%2f", Err(Unlisted), Ok(Stranger)),
            ("https://10.0.0.1/cb", Err(Unlisted), Err(Unlisted)),
            ("cursor://anysphere.cursor-mcp/oauth/callback", Ok(Trusted), Ok(Trusted)),
            ("cursor://anysphere.cursor-mcp/oauth/callback/", Err(Scheme), Err(Scheme)),
            ("cursor://evil/oauth/callback", Err(Scheme), Err(Scheme)),
            ("CURSOR://anysphere.cursor-mcp/oauth/callback", Err(Scheme), Err(Scheme)),
            ("http://localhost:3118/callback", Ok(Trusted), Ok(Trusted)),
            ("http://localhost/callback", Ok(Trusted), Ok(Trusted)),
            ("http://127.0.0.1/", Ok(Trusted), Ok(Trusted)),
            ("http://127.0.0.1:33418/", Ok(Trusted), Ok(Trusted)),
            ("http://[::1]:5/x", Ok(Trusted), Ok(Trusted)),
            ("http://127.0.0.1.evil.example/", Err(Scheme), Err(Scheme)),
            ("http://localhost.evil.example/", Err(Scheme), Err(Scheme)),
            ("http://127.0.0.1:80@evil.example/", Err(Parts), Err(Parts)),
            ("http://localhost:8080:80/", Err(Form), Err(Form)),
            ("http://127.1/", Err(Scheme), Err(Scheme)),
            ("http://0.0.0.0/", Err(Scheme), Err(Scheme)),
            ("http://evil.example/cb", Err(Scheme), Err(Scheme)),
            ("javascript:alert(1)", Err(Form), Err(Form)),
            ("javascript://x/%0aalert(1)", Err(Scheme), Err(Scheme)),
            ("data:text/html,x", Err(Form), Err(Form)),
            ("file:///etc/passwd", Err(Form), Err(Form)),
            ("blob:https://claude.ai/x", Err(Scheme), Err(Scheme)),
            ("about:blank", Err(Form), Err(Form)),
            ("", Err(Form), Err(Form)),
            ("/callback", Err(Form), Err(Form)),
            ("//evil.example/cb", Err(Form), Err(Form)),
            ("https://claude.ai/api/mcp/auth_callback\n", Err(Form), Err(Form)),
            ("https://claude.ai/ä", Err(Form), Err(Form)),
        ];
        for (address, vendors, open) in table {
            assert_eq!(policy(false).admit(address), vendors, "{address}");
            assert_eq!(policy(true).admit(address), open, "open: {address}");
        }
    }

    #[test]
    fn a_port_on_loopback_may_change_and_nothing_else() {
        let same = [
            ("http://127.0.0.1/", "http://127.0.0.1:59656/"),
            ("http://localhost:3118/callback", "http://localhost:4000/callback"),
            ("http://localhost:3118/callback", "http://localhost/callback"),
            ("http://[::1]/a?b=c", "http://[::1]:9/a?b=c"),
            ("https://a.example/cb", "https://a.example/cb"),
        ];
        for (registered, asked) in same {
            assert!(is_same(registered, asked), "{registered} {asked}");
        }
        let others = [
            ("http://127.0.0.1/", "http://127.0.0.1:59656"),
            ("http://127.0.0.1/callback", "http://localhost/callback"),
            ("http://localhost/callback", "http://localhost/callback/"),
            ("http://localhost/callback", "http://localhost/callback?x"),
            ("http://localhost/callback", "http://localhost:1@evil.example/callback"),
            ("http://localhost/callback", "http://localhost:x/callback"),
            ("http://localhost/callback", "https://localhost/callback"),
            ("http://localhost/callback", "http://LOCALHOST/callback"),
            ("https://a.example/cb", "https://a.example:443/cb"),
            ("https://a.example/cb", "https://a.example/CB"),
        ];
        for (registered, asked) in others {
            assert!(!is_same(registered, asked), "{registered} {asked}");
        }
    }
}
