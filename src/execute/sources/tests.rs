//! Sources over real local servers, some of them hostile.

use std::{
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{FutureExt, future::BoxFuture};
use http::HeaderValue;
use serde_json::{Map, Value as Json, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::{
    egress::{Egress, Reach},
    execute::catalog,
    mcp::{Backend, scripted},
};

mod bundled;
mod hostile;
mod logins;
mod paging;
mod requests;
mod tools;

/// A request as a server had it.
#[derive(Clone, Debug, Default)]
struct Seen {
    line: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Seen {
    fn target(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str())
    }

    fn parameter(&self, name: &str) -> Option<String> {
        let url = url::Url::parse("http://x/").unwrap().join(self.target()).unwrap();
        url.query_pairs().find(|(have, _)| have == name).map(|(_, value)| value.into_owned())
    }
}

/// What a server does with a connection after its request: writes this, and then closes or holds it.
enum Says {
    Whole(String),
    /// And nothing more, with the connection held open.
    Holds(String),
    /// This without end.
    Endless(String),
}

impl From<Json> for Says {
    fn from(body: Json) -> Says {
        answer("200 OK", "", &body.to_string())
    }
}

fn answer(status: &str, headers: &str, body: &str) -> Says {
    let length = body.len();
    Says::Whole(format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    ))
}

/// A server on a free port of this machine.
struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    _serving: AbortOnDropHandle<()>,
}

impl Server {
    /// Answers the nth request (from 0) by what `says` makes of it.
    async fn start(says: impl Fn(usize, &Seen) -> Says + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, says) = (Arc::clone(&seen), Arc::new(says));
        let serving = tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let (log, says) = (Arc::clone(&log), Arc::clone(&says));
                tokio::spawn(async move {
                    let Some(request) = read(&mut socket).await else { return };
                    let n = {
                        let mut log = log.lock().unwrap();
                        log.push(request.clone());
                        log.len() - 1
                    };
                    match says(n, &request) {
                        Says::Whole(text) => drop(socket.write_all(text.as_bytes()).await),
                        Says::Holds(text) => {
                            let _ = socket.write_all(text.as_bytes()).await;
                            std::future::pending::<()>().await;
                        }
                        Says::Endless(text) => while socket.write_all(text.as_bytes()).await.is_ok() {},
                    }
                });
            }
        });
        Server { address, seen, _serving: AbortOnDropHandle::new(serving) }
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    fn targets(&self) -> Vec<String> {
        self.seen().iter().map(|seen| seen.target().to_owned()).collect()
    }

    fn base(&self) -> String {
        format!("http://{}", self.address)
    }
}

async fn read(socket: &mut tokio::net::TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    let head = loop {
        let had = socket.read(&mut part).await.ok().filter(|had| *had > 0)?;
        bytes.extend_from_slice(&part[..had]);
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
    };
    let text = String::from_utf8(bytes[..head].to_vec()).ok()?;
    let mut lines = text.split("\r\n");
    let line = lines.next()?.to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length =
        headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, n)| n.parse().unwrap());
    while bytes.len() < head + 4 + length {
        let had = socket.read(&mut part).await.ok().filter(|had| *had > 0)?;
        bytes.extend_from_slice(&part[..had]);
    }
    let body = String::from_utf8(bytes[head + 4..].to_vec()).ok()?;
    Some(Seen { line, headers, body })
}

/// No accounts, and upstreams that answer whatever profile asks.
struct House(Vec<Arc<dyn Backend>>);

impl Upstreams for House {
    fn tool(&self, _: &str, upstream: &str, _: &str) -> Option<Arc<dyn Backend>> {
        self.0.iter().find(|backend| backend.id().as_str() == upstream).cloned()
    }

    fn at(&self, url: &str) -> Option<String> {
        (url == "https://notes.example.com/mcp").then(|| "notes".to_owned())
    }
}

impl Accounts for House {
    fn bearer(
        &self,
        connection: &str,
        _: Arc<Caller>,
        refused: Option<Refused>,
    ) -> BoxFuture<'static, Result<Option<HeaderValue>, SourceError>> {
        let token = if refused.is_some() { "Bearer renewed" } else { "Bearer old" };
        assert_eq!(connection, "notes");
        std::future::ready(Ok(Some(HeaderValue::from_static(token)))).boxed()
    }
}

fn sources_with(inside: &[&str], backends: Vec<Arc<dyn Backend>>) -> Reached {
    let inside = inside.iter().map(|net| net.parse().unwrap()).collect();
    let house = Arc::new(House(backends));
    Reached::new(Settings {
        egress: Egress::new(Reach { inside }, crate::tls::public_roots()),
        secrets: [("key", "s3cret"), ("github/token", "ghp_local"), ("linear/key", "lin_local")]
            .map(|(name, secret)| (name.to_owned(), secret.into()))
            .into(),
        accounts: house.clone(),
        upstreams: house,
        hosts: Vec::new(),
    })
}

/// Sources that reach this machine's first address, and no other.
fn sources() -> Reached {
    sources_with(&["127.0.0.1/32"], Vec::new())
}

/// A catalog of one entity `Thing` with these operations. `source`: its keys besides kind and address.
fn catalog(base: &str, source: &str, operations: &str) -> Arc<Catalog> {
    let text = format!(
        "catalog: things\nrevision: 1\ntitle: Things\nsource: {{kind: http, base_url: '{base}'{source}}}\nentities:\n  \
         Thing:\n    key: [id]\n    fields: {{id: string, name: string}}\noperations:\n{operations}"
    );
    catalog::read(&text, Path::new("things.yaml")).unwrap_or_else(|error| panic!("{error}\n{text}")).catalog
}

const LIST: &str = "  list: {kind: query, entity: Thing, http: {send: GET /things, rows: $.items.*}";
const GET: &str = "  get: {kind: get, entity: Thing, http: {send: 'GET /things/{key.id}', row: $}}\n";
const MAKE: &str = "  make: {kind: create, entity: Thing, args: {name: string}, effect: {class: write}, \
                    http: {send: POST /things, body: {name: args.name}, row: $}}\n";

fn ask(catalog: &Arc<Catalog>, operation: &str, key: Json, args: Json) -> Ask {
    let map = |value: Json| match value {
        Json::Object(map) => map,
        _ => Map::new(),
    };
    Ask {
        catalog: Arc::clone(catalog),
        operation: operation.into(),
        key: map(key),
        args: map(args),
        text: None,
        page: None,
        page_size: None,
        idempotency_key: None,
        caller: scripted::caller(),
    }
}

/// All pages, at most `most`, and what each had.
async fn all(sources: &Reached, first: Ask, most: usize) -> Result<Vec<Vec<Json>>, SourceError> {
    let (mut pages, mut page) = (Vec::new(), None);
    while pages.len() < most {
        let got = sources.ask(Ask { page: page.clone(), ..first.clone() }).await?;
        pages.push(got.rows);
        // As runs do: the same page again leads nowhere.
        if got.next.is_none() || got.next == page {
            break;
        }
        page = got.next;
    }
    Ok(pages)
}

fn ids(pages: &[Vec<Json>]) -> Vec<Vec<i64>> {
    pages.iter().map(|rows| rows.iter().map(|row| row["id"].as_i64().unwrap()).collect()).collect()
}

/// Rows `from..to` below `total`.
fn rows(from: usize, size: usize, total: usize) -> Json {
    (from..(from + size).min(total)).map(|id| json!({"id": id})).collect()
}

const PATIENCE: Duration = Duration::from_secs(20);
