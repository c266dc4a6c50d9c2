//! The sources of the catalogs, reached: each with its login, its limits and its way, from one configuration to the next.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::{FutureExt, future::BoxFuture};
use http::Method;
use serde_json::{Map, Value as Json, json};

use super::{
    Accounts, Ask, Page, SourceError, SourceErrorKind, Sources, Upstreams,
    answer::{self, Document, failure, is_write},
    login::{Login, Secrets},
    pages::{self, Answered, Place},
    request::{self, Request, unfit},
    send::{Came, Way},
    tool::Tools,
    turn::Turns,
};
use crate::{
    egress::Egress,
    execute::catalog::{Catalog, Graphql, Http, Mcp, Operation, Source},
};

/// Most sources that are held; the catalogs of sessions that pin old ones among them.
const MOST: usize = 1_000;

/// What sources are reached with.
pub struct Settings {
    /// Which networks it reaches is the configuration's to say.
    pub egress: Egress,
    pub secrets: Secrets,
    pub accounts: Arc<dyn Accounts>,
    pub upstreams: Arc<dyn Upstreams>,
    /// Hosts that catalogs may reach; empty, or `*`: those that they name.
    pub hosts: Vec<String>,
}

/// All sources, reached.
pub struct Reached {
    settings: Settings,
    /// By the catalog that a source stands in: as long as that is used, so are its limits and its token.
    known: Mutex<HashMap<usize, Known>>,
}

type Known = (Arc<Catalog>, Arc<Reach>);

/// One source.
struct Reach {
    turns: Turns,
    way: By,
}

enum By {
    Http(Box<Way>),
    Tools(Tools),
}

impl Reached {
    pub fn new(settings: Settings) -> Reached {
        Reached { settings, known: Mutex::default() }
    }

    fn reach(&self, catalog: &Arc<Catalog>) -> Result<Arc<Reach>, SourceError> {
        // The catalog is held beside it, so that no other can have its address.
        let key = Arc::as_ptr(catalog) as usize;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, reach)) = known.get(&key) {
            return Ok(Arc::clone(reach));
        }
        let reach =
            Arc::new(Reach { turns: Turns::new(catalog.source.limits()), way: self.by(&catalog.source)? });
        // Catalogs that nobody else holds are not asked any more.
        known.retain(|_, (catalog, _)| Arc::strong_count(catalog) > 1);
        if known.len() < MOST {
            known.insert(key, (Arc::clone(catalog), Arc::clone(&reach)));
        }
        Ok(reach)
    }

    fn by(&self, source: &Source) -> Result<By, SourceError> {
        let Settings { egress, secrets, accounts, upstreams, hosts } = &self.settings;
        let url = match source {
            Source::Http { base_url, .. } => base_url,
            Source::Graphql { url, .. } => url,
            Source::Mcp { url, upstream, tools_digest, limits, .. } => {
                let named = upstream.clone().or_else(|| upstreams.at(url.as_deref()?));
                let named = named.ok_or_else(|| {
                    unfit(
                        "no upstream of the gateway has this catalog's url; an operator adds it to upstreams",
                    )
                })?;
                return Ok(By::Tools(Tools::new(upstreams.clone(), named, *tools_digest, limits.timeout_ms)));
            }
        };
        let any = hosts.is_empty() || hosts.iter().any(|one| one == "*");
        if let Some(host) = source.reached_hosts().iter().find(|host| !any && !hosts.contains(host)) {
            return Err(unfit(format!("{host} is outside the gateway's allowlist (catalogs.hosts)")));
        }
        let login = Login::new(source.auth().clone(), secrets, accounts.clone(), egress.clone());
        Ok(By::Http(Box::new(Way::new(source, url, login, egress.clone())?)))
    }
}

impl Sources for Reached {
    fn ask(&self, ask: Ask) -> BoxFuture<'static, Result<Page, SourceError>> {
        let reach = self.reach(&ask.catalog);
        async move {
            let reach = reach?;
            let catalog = Arc::clone(&ask.catalog);
            let operation =
                catalog.operations.get(&ask.operation).filter(|operation| operation.enabled).ok_or_else(
                    || unfit(format!("{} has no operation {} that may be called", catalog.id, ask.operation)),
                )?;
            let _turn = reach.turns.turn().await?;
            asked(&reach, &ask, operation).await
        }
        .boxed()
    }
}

async fn asked(reach: &Reach, ask: &Ask, operation: &Operation) -> Result<Page, SourceError> {
    let place = ask.page.as_ref().map(Place::read).transpose()?;
    let size = pages::size(&operation.pages, place.as_ref(), ask.page_size);
    let sent = pages::sent(&operation.pages, place.as_ref(), size)?;
    let source = &ask.catalog.source;
    let (document, came, warnings) = match (&reach.way, source, operation) {
        (By::Http(way), Source::Http { base_url, headers, .. }, Operation { http: Some(to), .. }) => {
            let mut request = request::http(ask, to, base_url, headers)?;
            turned(&mut request, to, sent, way)?;
            keyed(ask, operation, &mut request)?;
            let came = way.send(ask, operation, request).await?;
            let document = of_http(operation, &came)?;
            (document, Some(came), Vec::new())
        }
        (By::Http(way), Source::Graphql { url, headers, .. }, Operation { graphql: Some(to), .. }) => {
            let mut request = of_graphql(ask, to, sent.values, url, headers)?;
            keyed(ask, operation, &mut request)?;
            let came = way.send(ask, operation, request).await?;
            let document = of_http(operation, &came)?;
            if let Some(error) =
                document.json.as_ref().and_then(|json| answer::graphql_errors(operation, json))
            {
                return Err(match way.login.is_shown_by(&error.message) {
                    true => SourceError { message: "the source answered with errors".to_owned(), ..error },
                    false => error,
                });
            }
            (document, Some(came), Vec::new())
        }
        (By::Tools(tools), _, Operation { mcp: Some(to), .. }) => {
            let mut arguments = request::object(ask, &to.arguments);
            arguments.extend(sent.values);
            let (document, warnings) = tools.call(ask, operation, &to.tool, arguments).await?;
            (document, None, warnings)
        }
        _ => return Err(unfit("the catalog's operation does not fit its source")),
    };
    let rows = answer::rows(operation, &document)?;
    let answered = Answered {
        document: &document,
        headers: came.as_ref().map(|came| &came.answer.headers),
        url: came.as_ref().map(|came| &came.url),
        rows: rows.len(),
    };
    let bare = |url| match &reach.way {
        By::Http(way) => way.bare(url),
        By::Tools(_) => Err(unfit("a tool's pages have no addresses")),
    };
    let next = pages::next(&operation.pages, place.as_ref(), size, &answered, bare)?;
    Ok(Page { ack: ack(operation, &document), rows, next, warnings })
}

/// The page's part of an HTTP request.
fn turned(request: &mut Request, to: &Http, sent: pages::Sent, way: &Way) -> Result<(), SourceError> {
    if let Some(url) = sent.url {
        let url = url.parse().map_err(|_| unfit("this is no page of this source"))?;
        // What lay in a store is looked at again.
        request.url = way.bare(url)?;
        return Ok(());
    }
    for (name, value) in sent.values {
        // A read that is asked for by a body has its page in that, unless the query has a parameter of that name.
        match request
            .body
            .as_mut()
            .and_then(Json::as_object_mut)
            .filter(|_| request.method != Method::GET && !to.query.keys().any(|key| key == name))
        {
            Some(body) => drop(body.insert(name, value)),
            None => request::set(&mut request.url, &name, &request::text(&value)),
        }
    }
    Ok(())
}

/// The key by which a source knows the same write again.
fn keyed(ask: &Ask, operation: &Operation, request: &mut Request) -> Result<(), SourceError> {
    let header = operation.effect.as_ref().and_then(|effect| effect.idempotency_header.as_ref());
    match header.zip(ask.idempotency_key.as_ref()) {
        Some((name, key)) => request::put(&mut request.headers, name, key),
        None => Ok(()),
    }
}

fn of_graphql(
    ask: &Ask,
    to: &Graphql,
    paged: Vec<(String, Json)>,
    url: &str,
    headers: &crate::config::Ordered<String>,
) -> Result<Request, SourceError> {
    let mut variables: Map<String, Json> = request::object(ask, &to.variables);
    variables.extend(paged);
    Ok(Request {
        method: Method::POST,
        url: url.parse().map_err(|_| unfit("the catalog's address is no URL"))?,
        headers: request::common_headers(headers)?,
        body: Some(json!({"query": to.document, "variables": variables})),
    })
}

/// The JSON of an answer. Where nothing is looked for in it, it may be anything.
fn of_http(operation: &Operation, came: &Came) -> Result<Document, SourceError> {
    let body = &came.answer.body;
    let parsed = serde_json::from_slice(body);
    let json = match parsed {
        Ok(json) => Some(json),
        Err(_) if operation.locator().is_none() || (is_write(operation) && body.is_empty()) => None,
        Err(_) => {
            let message = "the answer is no JSON that can be read";
            return Err(failure(SourceErrorKind::Shape, message, is_write(operation)));
        }
    };
    Ok(Document { json, ..Document::default() })
}

fn ack(operation: &Operation, document: &Document) -> Option<String> {
    let Mcp { ack: Some(at), .. } = operation.mcp.as_ref()? else { return None };
    Some(document.value(at)).filter(|said| !said.is_null()).map(|said| answer::excerpt(&request::text(&said)))
}
