//! A cookie jar for one upstream: names and values, for affinity alone. Domains, paths and dates are not read.

use crate::upstream::client::Fields;
use http::HeaderValue;
use http::header::SET_COOKIE;
use std::sync::Mutex;

/// More than any load balancer sets; what comes beyond is not kept.
const MOST: usize = 32;
const LONGEST: usize = 4096;

#[derive(Default)]
pub(super) struct Jar {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    cookies: Vec<(String, String)>,
    /// The header that stands for them, made when they change and not with each request.
    header: Option<HeaderValue>,
}

impl Jar {
    /// Takes what a response sets. A cookie that is emptied, or that is to live no longer, is forgotten.
    pub(super) fn take(&self, fields: &Fields) {
        for value in fields.all(&SET_COOKIE).filter(|value| value.is_ascii()) {
            let Some((name, value, lives)) = str::from_utf8(value).ok().and_then(read) else { continue };
            let mut kept = self.kept.lock().expect("no holder of the jar panics");
            kept.cookies.retain(|(n, _)| n != name);
            if lives && kept.cookies.len() < MOST {
                kept.cookies.push((name.to_owned(), value.to_owned()));
            }
            let pairs: Vec<_> = kept.cookies.iter().map(|(n, v)| format!("{n}={v}")).collect();
            kept.header = HeaderValue::from_str(&pairs.join("; ")).ok().filter(|_| !kept.cookies.is_empty());
        }
    }

    /// The cookies kept, as a request bears them.
    pub(super) fn cookie(&self) -> Option<HeaderValue> {
        self.kept.lock().expect("no holder of the jar panics").header.clone()
    }
}

/// Name, value, and whether the cookie is to be kept.
fn read(set: &str) -> Option<(&str, &str, bool)> {
    let mut parts = set.split(';').map(str::trim);
    let (name, value) = parts.next()?.split_once('=')?;
    if name.is_empty() || name.len() + value.len() > LONGEST {
        return None;
    }
    let ended = parts.any(|attribute| {
        attribute.split_once('=').is_some_and(|(key, age)| {
            key.eq_ignore_ascii_case("max-age") && age.parse::<i64>().is_ok_and(|age| age <= 0)
        })
    });
    Some((name, value, !value.is_empty() && !ended))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_come_back_until_the_upstream_ends_them() {
        let jar = Jar::default();
        let take = |text: &'static str| {
            jar.take(&Fields::of(&[("Set-Cookie", text)]));
            jar.cookie().map(|v| v.to_str().unwrap().to_owned())
        };
        assert_eq!(take("route=a; Path=/; HttpOnly").as_deref(), Some("route=a"));
        assert_eq!(take("x=1==").as_deref(), Some("route=a; x=1=="));
        assert_eq!(take("route=b").as_deref(), Some("x=1==; route=b"));
        assert_eq!(take("x=2; Max-Age=0").as_deref(), Some("route=b"));
        assert_eq!(take("nonsense").as_deref(), Some("route=b"));
        assert_eq!(take("route="), None);
    }
}
