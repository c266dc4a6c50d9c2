//! Clients of 2026-07-28: short calls, calls whose answer is a stream, and standing subscriptions. Nothing of theirs can
//! be resumed: a call that breaks off has failed, and a subscription that ended is made anew.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client::{Failure, Heard, Load, Streamed, all_listed, repeat, result};
use crate::http::Answer;

const VERSION: &str = "2026-07-28";
const BETWEEN: Duration = Duration::from_millis(400);
/// Before a subscription that was refused, or broke off, is made again.
const AGAIN: Duration = Duration::from_millis(500);

async fn post(load: &Load, id: u64, method: &str, mut params: Value) -> Result<Answer, Failure> {
    let meta = [
        ("io.modelcontextprotocol/protocolVersion", json!(VERSION)),
        ("io.modelcontextprotocol/clientCapabilities", json!({})),
        ("io.modelcontextprotocol/clientInfo", json!({ "name": "load", "version": "1" })),
    ];
    for (name, value) in meta {
        params["_meta"][name] = value;
    }
    let name = params["name"].as_str().map(str::to_owned);
    let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string();
    let mut headers = vec![
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", VERSION),
        ("mcp-method", method),
    ];
    headers.extend(name.as_deref().map(|name| ("mcp-name", name)));
    let answer = load.send("POST", &headers, body).await?;
    match answer.status {
        200 => Ok(answer),
        _ => Err(Failure::of(answer).await),
    }
}

/// A client's calls, until it is enough.
pub async fn work(load: Arc<Load>) {
    let mut work = JoinSet::new();
    let (list_of, short_of) = (load.clone(), load.clone());
    work.spawn(async move { repeat(&list_of, "modern_list", 2 * BETWEEN, || list(&list_of)).await });
    work.spawn(async move { repeat(&short_of, "modern_call", BETWEEN, || short(&short_of)).await });
    work.spawn(async move { repeat(&load, "modern_streamed_call", BETWEEN, || streamed(&load)).await });
    work.join_all().await;
}

/// One call whose answer comes whole.
async fn ask(load: &Load, id: u64, method: &str, params: Value) -> Result<Value, Failure> {
    let answer = post(load, id, method, params).await?;
    let replica = answer.replica();
    let message = answer.json().await.map_err(|why| Failure::new(&replica, why))?;
    result(&message, id).cloned().map_err(|why| Failure::new(&replica, why))
}

async fn list(load: &Load) -> Result<(), Failure> {
    let list = ask(load, load.unique(), "tools/list", json!({})).await?;
    all_listed(load, &list).map_err(|why| Failure::new("-", why))
}

async fn short(load: &Load) -> Result<(), Failure> {
    let id = load.unique();
    let upstream = &load.upstreams[id as usize % load.upstreams.len()];
    let call = json!({ "name": format!("{}__echo", upstream.name), "arguments": { "n": id } });
    let said = ask(load, id, "tools/call", call).await?;
    match said["structuredContent"]["n"] == id {
        true => Ok(()),
        false => Err(Failure::new("-", format!("echo of {id} is {said}"))),
    }
}

async fn streamed(load: &Load) -> Result<(), Failure> {
    let id = load.unique();
    let upstream = &load.upstreams[id as usize % load.upstreams.len()];
    let call = json!({
        "name": format!("{}__progress", upstream.name), "arguments": Streamed::arguments(),
        "_meta": { "progressToken": id },
    });
    let mut steps = Streamed::new(id);
    let mut answer = post(load, id, "tools/call", call).await?;
    let replica = answer.replica();
    let read = async {
        while let Some(event) = answer.event().await? {
            if !event.data.is_empty() {
                let message: Value =
                    serde_json::from_slice(&event.data).map_err(|error| format!("no JSON: {error}"))?;
                if steps.take(&message)? {
                    return Ok(());
                }
            }
        }
        Err("its stream broke off".to_owned())
    };
    let read = read.await.map_err(|why| Failure::new(&replica, why));
    steps.end(&load.tally, read.is_ok());
    read
}

/// A subscription to every upstream's numbers, made again when it ends. What changed while there was none, a client reads
/// by itself; in one subscription every number must come, once.
pub struct Subscription {
    load: Arc<Load>,
    id: u64,
    stream: Answer,
    heard: Heard,
}

impl Subscription {
    /// Acknowledged.
    pub async fn begin(load: &Arc<Load>) -> Result<Subscription, Failure> {
        let id = load.unique();
        let uris: Vec<_> = load.upstreams.iter().map(|upstream| upstream.uri()).collect();
        let filter = json!({ "notifications": { "toolsListChanged": true, "resourceSubscriptions": uris } });
        let mut stream = post(load, id, "subscriptions/listen", filter).await?;
        let replica = stream.replica();
        loop {
            let event = stream.event().await.map_err(|why| Failure::new(&replica, why))?;
            let Some(event) = event else { return Err(Failure::new(&replica, "it ended unacknowledged")) };
            let message: Value = serde_json::from_slice(&event.data).unwrap_or_default();
            match message["method"].as_str() {
                Some("notifications/subscriptions/acknowledged") => {}
                None if event.data.is_empty() => continue,
                _ => return Err(Failure::new(&replica, format!("not acknowledged first: {message}"))),
            }
            let granted = message["params"]["notifications"]["resourceSubscriptions"].as_array();
            if granted.is_none_or(|granted| granted.len() < load.upstreams.len()) {
                return Err(Failure::new(&replica, format!("not all is granted: {message}")));
            }
            let heard = Heard::from(load, load.number.load(Ordering::SeqCst));
            return Ok(Subscription { load: load.clone(), id, stream, heard });
        }
    }

    pub async fn listen(mut self) {
        let load = self.load.clone();
        loop {
            let replica = self.stream.replica();
            let ended = tokio::select! {
                ended = self.read() => ended,
                () = load.over.cancelled() => {
                    self.finish(Some(load.number.load(Ordering::SeqCst)));
                    return;
                }
            };
            let since = Instant::now();
            match ended {
                Ok(()) => load.tally.count("listens_completed", 1),
                Err(why) => load.tally.failed("listen", &replica, &why),
            }
            // What was told last may not have come any more.
            self.finish(None);
            self = loop {
                match Subscription::begin(&load).await {
                    Ok(next) => break next,
                    Err(failure) => load.tally.failed("listen", &failure.replica, &failure.why),
                }
                if load.over.is_cancelled() {
                    return;
                }
                tokio::time::sleep(AGAIN).await;
            };
            load.tally.count("listens_begun_again", 1);
            load.tally.gap("listens", since.elapsed());
        }
    }

    fn finish(self, last: Option<u64>) {
        self.heard.end(last, ["listen_received", "listen_lost", "listen_doubled", "listen_made_up"]);
    }

    /// Until its completion. A stream that ends without one has broken off.
    async fn read(&mut self) -> Result<(), String> {
        while let Some(event) = self.stream.event().await? {
            if event.data.is_empty() {
                continue;
            }
            let message: Value =
                serde_json::from_slice(&event.data).map_err(|error| format!("no JSON: {error}"))?;
            let subscription = &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
            if message["method"].is_null() {
                return result(&message, self.id).map(drop);
            }
            if *subscription != self.id || !self.heard.take(&message) {
                return Err(format!("not this subscription's: {message}"));
            }
        }
        Err("it broke off without its completion".into())
    }
}
