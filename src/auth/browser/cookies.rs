//! The two cookies: one that tells browsers apart before anybody is logged in, and the session's. Their names and flags.

use crate::auth::random_text;
use http::HeaderMap;
use http::header::{self, HeaderValue};
use std::time::Duration;

/// Longest value that is looked at.
const LONGEST: usize = 512;

pub struct Cookies {
    /// Whether browsers come by HTTPS. Then the names bind them to this host alone (RFC 6265bis, `__Host-`).
    pub secure: bool,
}

impl Cookies {
    /// The session's sealed secret.
    pub fn session<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        value(headers, self.session_name())
    }

    /// The browser's own name, and the cookie that gives it one where it has none.
    pub fn browser(&self, headers: &HeaderMap) -> (String, Option<HeaderValue>) {
        let name = if self.secure { "__Host-plasm-browser" } else { "plasm-browser" };
        match value(headers, name) {
            Some(browser) => (browser.to_owned(), None),
            None => {
                let browser = random_text();
                let cookie = self.cookie(name, &browser, None);
                (browser, Some(cookie))
            }
        }
    }

    pub fn set_session(&self, sealed: &str, life: Duration) -> HeaderValue {
        self.cookie(self.session_name(), sealed, Some(life))
    }

    pub fn forget_session(&self) -> HeaderValue {
        self.cookie(self.session_name(), "", Some(Duration::ZERO))
    }

    fn session_name(&self) -> &'static str {
        if self.secure { "__Host-plasm-session" } else { "plasm-session" }
    }

    /// `Lax`: the provider's redirect back to us bears them, a form on a foreign page does not.
    fn cookie(&self, name: &str, value: &str, life: Option<Duration>) -> HeaderValue {
        let life = life.map_or(String::new(), |life| format!("; Max-Age={}", life.as_secs()));
        let secure = if self.secure { "; Secure" } else { "" };
        let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax{life}{secure}");
        HeaderValue::from_str(&text).expect("names and sealed values are plain ASCII")
    }
}

/// A cookie's value; none where it stands twice with different values, for somebody else may have set one of them.
fn value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let texts = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut values = texts.flat_map(|text| text.split(';')).filter_map(|pair| {
        let (key, value) = pair.trim().split_once('=')?;
        (key == name).then_some(value)
    });
    let first = values.next()?;
    (values.all(|other| other == first) && !first.is_empty() && first.len() <= LONGEST).then_some(first)
}

/// A browser as people call it, from its `User-Agent`.
pub fn agent(headers: &HeaderMap) -> String {
    let text = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let first = |known: &[(&str, &'static str)]| {
        known.iter().find(|(mark, _)| text.contains(mark)).map(|(_, name)| *name)
    };
    let name = first(&[("Edg", "Edge"), ("Firefox", "Firefox"), ("Chrom", "Chrome"), ("Safari", "Safari")]);
    let system = first(&[
        ("Android", "Android"),
        ("iPhone", "iOS"),
        ("iPad", "iOS"),
        ("Windows", "Windows"),
        ("Mac OS", "macOS"),
        ("Linux", "Linux"),
    ]);
    match (name, system) {
        (Some(name), Some(system)) => format!("{name} on {system}"),
        (Some(name), None) => name.to_owned(),
        _ => "A browser".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(text: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_static(text))])
    }

    #[test]
    fn a_cookie_that_stands_twice_is_nobodys() {
        assert_eq!(value(&sent("a=1; b=2"), "b"), Some("2"));
        assert_eq!(value(&sent("a=1; a=1"), "a"), Some("1"));
        assert_eq!(value(&sent("a=1; a=2"), "a"), None);
        assert_eq!(value(&sent("xa=1; a="), "a"), None);
    }

    #[test]
    fn cookies_are_bound_to_the_host_where_there_is_https() {
        let text = Cookies { secure: true }.set_session("x", Duration::from_secs(60));
        let want = "__Host-plasm-session=x; Path=/; HttpOnly; SameSite=Lax; Max-Age=60; Secure";
        assert_eq!(text.to_str().unwrap(), want);
        let (name, cookie) = Cookies { secure: false }.browser(&HeaderMap::new());
        let want = format!("plasm-browser={name}; Path=/; HttpOnly; SameSite=Lax");
        assert_eq!(cookie.unwrap().to_str().unwrap(), want);
    }
}
