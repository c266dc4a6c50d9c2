//! What a person sees of an authorization: a login where it is needed, always the question whether they want it, and the way
//! back to the client.

use super::redirects::{host, is_local};
use super::request::{Misguided, Return, Wanted, is_address};
use super::{Grant, Server};
use crate::auth::browser::{Visitor, stale};
use crate::auth::form::Form;
use crate::auth::html;
use crate::auth::pages::Asked;
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use minijinja::context;

/// What the forms of these pages are known by.
const CONSENT: &str = "consent";
/// Parameters of a request that can be granted which are read.
const PARAMETERS: [&str; 9] = [
    "response_type",
    "response_mode",
    "client_id",
    "redirect_uri",
    "code_challenge",
    "code_challenge_method",
    "scope",
    "state",
    "resource",
];

impl Server {
    /// GET: the request as the client wrote it.
    pub(super) async fn authorize(&self, asked: &Asked) -> Response<Bytes> {
        let query = asked.query.as_deref().unwrap_or_default();
        let form = match Form::read(query.as_bytes()) {
            Ok(form) => form,
            Err(error) => {
                return told(StatusCode::BAD_REQUEST, &format!("The app's request is wrong: {error}."));
            }
        };
        let wanted = match self.wanted(&form).await {
            Ok(wanted) => wanted,
            Err(Misguided::Person(status, why)) => return told(status, &why),
            Err(Misguided::Client { to, error, why }) => return self.refused(&to, error, why),
        };
        let here = format!("/authorize?{}", known(query));
        match self.browser.visitor(&asked.headers).await {
            Ok(Some(visitor)) => self.question(&visitor, &wanted, &here),
            Ok(None) => self.browser.ask(&asked.headers, &here, false).await,
            Err(_) => html::store_away(),
        }
    }

    /// POST: the person's decision.
    pub(super) async fn decide(&self, asked: &Asked) -> Response<Bytes> {
        if is_foreign(&asked.headers) {
            return stale();
        }
        let form = Form::of_body(&asked.headers, &asked.body).unwrap_or_default();
        let visitor = match self.browser.visitor(&asked.headers).await {
            Ok(Some(visitor)) => visitor,
            Ok(None) => return stale(),
            Err(_) => return html::store_away(),
        };
        // Sealed for this session, so that a form of another page, or of another person, brings none that opens (CSRF).
        let ticket = form.get("ticket");
        let wanted = ticket.and_then(|ticket| self.browser.open_for::<Wanted>(&visitor, CONSENT, ticket));
        let Some(wanted) = wanted else { return stale() };
        let to = wanted.back();
        let answer = match form.get("decision") {
            Some("allow") => {
                let grant = Grant {
                    client: wanted.client.clone(),
                    name: wanted.name.clone(),
                    host: host(&wanted.registered),
                    person: visitor.person,
                    resource: wanted.resource.clone(),
                    scope: wanted.scope.clone(),
                    refresh: wanted.refresh,
                };
                let Ok(code) = self.codes.give(grant, &wanted.redirect, &wanted.challenge).await else {
                    return html::store_away();
                };
                self.clients.keep(&wanted.client).await;
                to.url(&self.issuer, &[("code", &code)])
            }
            _ => to.url(
                &self.issuer,
                &[("error", "access_denied"), ("error_description", "the person did not allow it")],
            ),
        };
        back(&wanted.name, &answer)
    }

    fn question(&self, visitor: &Visitor, wanted: &Wanted, here: &str) -> Response<Bytes> {
        let words = |scope: &str| {
            let known = self.scopes.iter().find(|(name, _)| name == scope);
            known.map(|(_, words)| words.clone()).unwrap_or_default()
        };
        let scopes = wanted.scope.split(' ').filter(|scope| !scope.is_empty());
        let scopes: Vec<_> = scopes.map(|scope| context! { name => scope, words => words(scope) }).collect();
        let profile = match wanted.profile.as_str() {
            "" => "the gateway's tools".to_owned(),
            profile => format!("the tools of “{profile}”"),
        };
        let fields = context! {
            client => &wanted.name,
            user => &visitor.person.name,
            host => host(&wanted.registered),
            address => &wanted.registered,
            document => wanted.client.contains(':').then_some(&wanted.client),
            local => is_local(&wanted.registered),
            stranger => !wanted.trusted,
            scopes,
            profile,
            resource => &wanted.resource,
            ticket => self.browser.seal_for(visitor, CONSENT, wanted),
            csrf => self.browser.token(visitor, "logout"),
            back => here,
        };
        html::page(StatusCode::OK, "consent", &format!("{} asks for access", wanted.name), fields)
    }

    /// Tells the client. A browser goes to an address that anybody may have registered only if its user says so.
    fn refused(&self, to: &Return, error: &str, why: &str) -> Response<Bytes> {
        let url = to.url(&self.issuer, &[("error", error), ("error_description", why)]);
        match to.trusted {
            true => html::see_other(&url),
            false => {
                let link = Some((url.as_str(), "Go back to the app"));
                html::message(StatusCode::BAD_REQUEST, "The app's request is wrong", why, link)
            }
        }
    }
}

/// Of a request's query, what is read here, in its order: what anybody adds to it goes no further.
fn known(query: &str) -> String {
    let parameters = url::form_urlencoded::parse(query.as_bytes());
    let known = parameters.filter(|(name, value)| PARAMETERS.contains(&&**name) && !value.is_empty());
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(known).finish()
}

/// The way back to the client, as a page: a redirect in answer to a form would be held to the page's `form-action`, also
/// where the client redirects on, and an app that opens leaves the page before it in the browser.
fn back(client: &str, to: &str) -> Response<Bytes> {
    if !is_address(to) {
        return stale();
    }
    let app = !to.starts_with("http");
    html::page(StatusCode::OK, "done", "Done", context! { title => "Done", client, to, app })
}

fn told(status: StatusCode, why: &str) -> Response<Bytes> {
    html::message(status, "This app cannot be let in", why, None)
}

/// Whether a browser says that a form was sent from elsewhere (Fetch Metadata).
fn is_foreign(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_read_of_a_request_does_not_come_back_after_a_login() {
        let pad = "x".repeat(30_000);
        let query = format!("client_id=a%2Fb&pad={pad}&state=s+%26t&{pad}=1&resource=&prompt=login&scope=x");
        assert_eq!(known(&query), "client_id=a%2Fb&state=s+%26t&scope=x");
    }
}
