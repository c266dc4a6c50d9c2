//! Pages that people read: plain HTML without scripts, from templates that escape whatever is put into them.

use super::pages;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use minijinja::{Environment, Value, context};
use std::sync::LazyLock;

const STYLE: &str = include_str!("html/style.css");
const LAYOUT: &str = "layout.html";
/// Every page by its name. The ending makes the templates escape.
const TEMPLATES: [(&str, &str); 6] = [
    (LAYOUT, include_str!("html/layout.html")),
    ("consent.html", include_str!("html/consent.html")),
    ("done.html", include_str!("html/done.html")),
    ("login.html", include_str!("html/login.html")),
    ("message.html", include_str!("html/message.html")),
    ("account.html", include_str!("html/account.html")),
];

static PAGES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut pages = Environment::new();
    for (name, source) in TEMPLATES {
        pages.add_template(name, source).expect("the templates are compiled in, and a test renders each");
    }
    pages
});

/// No script, no frame, no form to elsewhere; of styles, the one in the page.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = STANDARD.encode(digest(&SHA256, STYLE.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    );
    policy.parse().expect("a policy is plain ASCII")
});

/// A whole page. `name` is that of a template, without its ending.
pub fn page(status: StatusCode, name: &str, title: &str, fields: Value) -> Response<Bytes> {
    // Of ours, and each is rendered by a test with what it is given.
    let render = |name: &str, fields: Value| PAGES.get_template(name).and_then(|page| page.render(fields));
    let body = render(&format!("{name}.html"), fields);
    let whole = body.and_then(|body| {
        let (body, style) = (Value::from_safe_string(body), Value::from_safe_string(STYLE.to_owned()));
        render(LAYOUT, context! { title, style, body })
    });
    let whole = whole.unwrap_or_else(|error| {
        tracing::error!(%error, page = name, "a page was not rendered");
        String::new()
    });
    let mut response = pages::answer(status, "text/html; charset=utf-8", whole);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, POLICY.clone());
    response
}

/// A page that says one thing, and where to go on.
pub fn message(status: StatusCode, title: &str, text: &str, link: Option<(&str, &str)>) -> Response<Bytes> {
    let link = link.map(|(href, label)| context! { href, label });
    page(status, "message", title, context! { title, text, link })
}

/// A redirect in answer to a form, as a page that goes on by itself: a browser would hold the redirect, and those that follow
/// it, to the page's `form-action`. Any other answer as it is.
pub fn onward(answer: Response<Bytes>, title: &str, text: &str) -> Response<Bytes> {
    let Some(to) = answer.headers().get(header::LOCATION) else { return answer };
    let href = to.to_str().unwrap_or_default();
    let link = context! { href, label => "Go on" };
    let mut page = page(StatusCode::OK, "message", title, context! { title, text, link, by_itself => true });
    for cookie in answer.headers().get_all(header::SET_COOKIE) {
        page.headers_mut().append(header::SET_COOKIE, cookie.clone());
    }
    page
}

/// 503: the store is out of reach, and nothing is lost.
pub fn store_away() -> Response<Bytes> {
    let text = "Nothing is lost: load this page again in a moment.";
    message(StatusCode::SERVICE_UNAVAILABLE, "Please try again", text, None)
}

/// A redirect that is followed by GET.
pub fn see_other(to: &str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::SEE_OTHER;
    if let Ok(to) = HeaderValue::from_str(to) {
        response.headers_mut().insert(header::LOCATION, to);
    }
    response
}

/// What a stranger wrote, as one line of a page: without what would rearrange or hide other text, and bounded.
pub fn plain(text: &str) -> String {
    let shown = |c: &char| {
        let rearranges = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{61c}');
        !c.is_control() && !rearranges
    };
    text.chars().filter(shown).take(80).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_escapes_what_strangers_wrote_and_carries_no_script() {
        let evil = "<script>alert(1)</script>\"'";
        for (name, _) in TEMPLATES.iter().filter(|(name, _)| *name != LAYOUT) {
            let name = name.trim_end_matches(".html");
            let item = context! { id => evil, name => evil, host => evil, words => evil, since => evil, agent => evil, resource => evil, scope => evil, used => evil, label => evil, detail => evil, verb => evil };
            let fields = context! {
                title => evil, text => evil, link => context! { href => evil, label => evil }, client => evil, host => evil, address => evil,
                document => evil, local => true, stranger => true, scopes => vec![item.clone()], user => evil, profile => evil,
                resource => evil, ticket => evil, to => evil, app => true, error => evil, sessions => vec![item.clone()],
                clients => vec![item.clone()], accounts => vec![item.clone()], csrf => evil, leave => evil, back => evil, by_itself => true,
            };
            let page = page(StatusCode::OK, name, evil, fields);
            let text = String::from_utf8(page.body().to_vec()).unwrap();
            assert!(text.contains("<!doctype html>") && text.contains("&lt;script&gt;"), "{name}: {text}");
            assert!(!text.contains("<script") && !text.contains("on1oad"), "{name}");
            let policy = page.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
            assert!(!policy.contains("unsafe"));
        }
    }

    #[test]
    fn a_redirect_in_answer_to_a_form_is_a_page_that_goes_on_by_itself() {
        let mut answer = see_other("https://login.example/a?b=c&d");
        answer.headers_mut().insert(header::SET_COOKIE, HeaderValue::from_static("a=b"));
        let page = onward(answer, "Log in", "x");
        assert_eq!((page.status(), page.headers().get(header::LOCATION)), (StatusCode::OK, None));
        assert_eq!(page.headers()[header::SET_COOKIE], "a=b");
        let text = String::from_utf8(page.body().to_vec()).unwrap();
        let to = "https:&#x2f;&#x2f;login.example&#x2f;a?b=c&amp;d";
        assert!(
            text.contains(&format!("content=\"0;url={to}\"")) && text.contains(&format!("href=\"{to}\"")),
            "{text}"
        );
        let other = onward(message(StatusCode::OK, "t", "x", None), "Log in", "x");
        assert!(!String::from_utf8(other.body().to_vec()).unwrap().contains("refresh"));
    }

    #[test]
    fn a_name_cannot_rearrange_the_page() {
        assert_eq!(plain(" a\u{202e}b\u{0}c\nd\u{200b} "), "abcd");
        assert_eq!(plain(&"x".repeat(500)).len(), 80);
    }
}
