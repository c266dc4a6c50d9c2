//! Which proxy stands before an upstream: as `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` say it, or one that is
//! named. Proxies of HTTP only. Knows no configuration and opens nothing.

use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::Matcher;
use std::net::IpAddr;

/// A proxy, and what it is told of us.
#[derive(Clone, Debug)]
pub struct Proxy {
    pub url: Uri,
    /// `Proxy-Authorization`: user and password of the proxy's URL.
    pub login: Option<HeaderValue>,
}

/// The text names no proxy that can be used. It is not repeated, for it may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not the URL of an HTTP proxy; it looks like http://user:password@proxy:3128")]
pub struct NoProxy;

/// A variable of the environment that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{variable} {why}")]
pub struct BadVariable {
    pub variable: &'static str,
    pub why: NoProxy,
}

/// The environment's variables, the ones that go first before the others. Both cases are read, capitals first.
const HTTPS: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
const HTTP: [&str; 4] = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
const NONE: [&str; 2] = ["NO_PROXY", "no_proxy"];

impl Proxy {
    /// `http://user:password@proxy:3128`; without a scheme it is `http://`.
    pub fn parse(text: &str) -> Result<Proxy, NoProxy> {
        Proxy::of(&Matcher::builder().all(text.to_owned()).build(), &Uri::from_static("http://x"))
            .ok_or(NoProxy)
    }

    /// The proxy of the environment for this address; none for an address of this machine, whatever the variables say:
    /// no proxy elsewhere would reach it.
    pub fn of_environment(
        url: &Uri,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Proxy>, BadVariable> {
        let named = if url.scheme_str() == Some("https") { HTTPS } else { HTTP };
        // A variable that is set to nothing is how a shell takes one back.
        let mut set =
            named.into_iter().filter_map(|name| Some((name, variable(name).filter(|v| !v.is_empty())?)));
        let Some((name, text)) = set.next().filter(|_| !is_this_machine(url)) else { return Ok(None) };
        let none = NONE.into_iter().find_map(|name| variable(name).filter(|v| !v.is_empty()));
        Proxy::parse(&text).map_err(|why| BadVariable { variable: name, why })?;
        let matcher = Matcher::builder().all(text).no(none.unwrap_or_default()).build();
        Ok(Proxy::of(&matcher, url))
    }

    fn of(matcher: &Matcher, url: &Uri) -> Option<Proxy> {
        let found = matcher.intercept(url)?;
        let http = matches!(found.uri().scheme_str(), Some("http" | "https"));
        http.then(|| Proxy { url: found.uri().clone(), login: found.basic_auth().cloned() })
    }
}

fn is_this_machine(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_the_proxy_of_an_address() {
        type Case = (&'static [(&'static str, &'static str)], &'static str, Option<&'static str>);
        let table: &[Case] = &[
            (&[], "https://up.test/", None),
            (&[("HTTPS_PROXY", "http://p:3128")], "https://up.test/", Some("http://p:3128/")),
            (&[("https_proxy", "p:3128")], "https://up.test/", Some("http://p:3128/")),
            (&[("HTTPS_PROXY", "http://p:3128")], "http://up.test/", None),
            (&[("HTTPS_PROXY", ""), ("https_proxy", "q:1")], "https://up.test/", Some("http://q:1/")),
            (&[("HTTPS_PROXY", "a:1"), ("https_proxy", "b:1")], "https://up.test/", Some("http://a:1/")),
            (&[("HTTP_PROXY", "a:1"), ("ALL_PROXY", "b:1")], "https://up.test/", Some("http://b:1/")),
            (&[("HTTP_PROXY", "a:1"), ("ALL_PROXY", "b:1")], "http://up.test/", Some("http://a:1/")),
            (&[("ALL_PROXY", "a:1"), ("NO_PROXY", "other, .test")], "http://up.test/", None),
            (&[("ALL_PROXY", "a:1"), ("no_proxy", "up.test")], "http://x.up.test/", None),
            (&[("ALL_PROXY", "a:1"), ("no_proxy", "up.test")], "http://cup.test/", Some("http://a:1/")),
            (&[("ALL_PROXY", "a:1"), ("NO_PROXY", "*")], "http://up.test/", None),
            (&[("ALL_PROXY", "a:1"), ("NO_PROXY", "10.0.0.0/8")], "http://10.1.2.3:80/", None),
            (&[("ALL_PROXY", "a:1")], "http://127.0.0.1:80/", None),
            (&[("ALL_PROXY", "a:1")], "https://[::1]:80/", None),
            (&[("ALL_PROXY", "a:1")], "https://LOCALHOST/", None),
        ];
        for (set, url, want) in table {
            let variable = |name: &str| set.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
            let got = Proxy::of_environment(&url.parse().unwrap(), variable).unwrap();
            assert_eq!(got.map(|proxy| proxy.url.to_string()).as_deref(), *want, "{set:?} {url}");
        }
    }

    #[test]
    fn a_login_is_sent_and_not_shown_and_what_is_no_http_proxy_is_said() {
        let proxy = Proxy::parse("http://user:p%40ss@proxy:3128").unwrap();
        assert_eq!(proxy.login.as_ref().unwrap(), "Basic dXNlcjpwQHNz");
        assert!(!format!("{proxy:?}").contains("dXNlc"), "{proxy:?}");
        for text in ["socks5://p:1080", "", "http://", "ftp://p"] {
            assert_eq!(Proxy::parse(text).err(), Some(NoProxy), "{text}");
        }
        let bad = Proxy::of_environment(&"http://up.test".parse().unwrap(), |name| {
            (name == "all_proxy").then(|| "socks5://user:secret@p".to_owned())
        });
        let said = bad.unwrap_err().to_string();
        assert!(said.starts_with("all_proxy is not") && !said.contains("secret"), "{said}");
    }
}
