//! What the `endpoint` event names: a URI reference (RFC 3986, section 5.2), taken only where it stays at the origin.

use http::Uri;

/// The address that `said` means on a stream from `base`. Errors: it is no address, or one of another origin.
pub(super) fn resolve(base: &Uri, said: &str) -> Result<Uri, &'static str> {
    const BAD: &str = "its endpoint event holds no address";
    let said = said.trim();
    let said = said.split('#').next().unwrap_or_default();
    if said.is_empty() {
        return Err(BAD);
    }
    let scheme = base.scheme_str().ok_or(BAD)?;
    let authority = base.authority().ok_or(BAD)?;
    let text = if has_scheme(said) {
        said.to_owned()
    } else if said.starts_with("//") {
        format!("{scheme}:{said}")
    } else if said.starts_with('/') {
        format!("{scheme}://{authority}{said}")
    } else if said.starts_with('?') {
        format!("{scheme}://{authority}{}{said}", base.path())
    } else {
        let folder = base.path().rfind('/').map_or("/", |n| &base.path()[..=n]);
        format!("{scheme}://{authority}{}", without_dots(folder, said))
    };
    let uri: Uri = text.parse().map_err(|_| BAD)?;
    if origin(&uri).is_none_or(|origin| Some(origin) != self::origin(base)) {
        return Err("its endpoint event names another origin");
    }
    if uri.authority().is_some_and(|a| a.as_str().contains('@') && Some(a) != base.authority()) {
        return Err("its endpoint event names another user");
    }
    Ok(uri)
}

fn has_scheme(said: &str) -> bool {
    said.split_once(':').is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    })
}

/// A relative path over its folder, with its `.` and `..` resolved; the query stays as it is.
fn without_dots(folder: &str, said: &str) -> String {
    let (path, query) = said.split_at(said.find('?').unwrap_or(said.len()));
    let mut parts: Vec<&str> = folder.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." if parts.len() > 1 => drop(parts.pop()),
            ".." => {}
            part => parts.push(part),
        }
    }
    format!("{}{query}", parts.join("/"))
}

/// Scheme, host and port (RFC 6454).
fn origin(uri: &Uri) -> Option<(String, String, u16)> {
    let scheme = uri.scheme_str()?.to_ascii_lowercase();
    let port = uri.port_u16().or(match &*scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    })?;
    Some((scheme, uri.host()?.to_ascii_lowercase(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_resolve_at_the_streams_origin_and_nowhere_else() {
        let table = [
            ("http://h:80/a/sse", "/m?s=1", Some("http://h:80/m?s=1")),
            ("http://h/a/sse?x=1", "?s=1", Some("http://h/a/sse?s=1")),
            ("http://h/a/sse", "m?u=http://x/", Some("http://h/a/m?u=http://x/")),
            ("http://h/a/b/sse", "../m/./n?s=../1", Some("http://h/a/m/n?s=../1")),
            ("http://h/sse", "../../m", Some("http://h/m")),
            ("http://h/sse", "http://H:80/m#part", Some("http://H:80/m")),
            ("https://h/sse", "https://h:443/m", Some("https://h:443/m")),
            ("https://h/sse", " /m\n", Some("https://h/m")),
            ("http://h/sse", "//h/m", Some("http://h/m")),
            ("http://h/sse", "//evil/m", None),
            ("https://h/sse", "http://h/m", None),
            ("http://h/sse", "http://h:81/m", None),
            ("http://h/sse", "http://h@evil/m", None),
            ("http://h/sse", "http://u:p@h/m", None),
            ("http://h/sse", "http://h.evil/m", None),
            ("http://h/sse", "file:///etc/passwd", None),
            ("http://h/sse", "http:\\\\evil\\m", None),
            ("http://h/sse", "/m\r\nX: y", None),
            ("http://h/sse", "", None),
            ("http://h/sse", "#", None),
        ];
        for (base, said, want) in table {
            let got = resolve(&base.parse().unwrap(), said).ok().map(|uri| uri.to_string());
            assert_eq!(got.as_deref().map(str::to_lowercase), want.map(str::to_lowercase), "{base} {said:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_leads_to_another_origin(said in "[a-z:/@.?#\\\\0-9% ]{0,24}") {
            let base: Uri = "http://h:8000/a/sse".parse().unwrap();
            if let Ok(uri) = resolve(&base, &said) {
                proptest::prop_assert_eq!(origin(&uri), origin(&base));
            }
        }
    }
}
