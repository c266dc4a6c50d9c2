//! Clients of 2025-11-25: a session each, with a GET stream that is resumed whenever it ends, short calls, and calls
//! whose answer is a stream of some seconds, which is resumed where it ends too soon.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client::{Failure, Heard, Load, Streamed, all_listed, repeat, result};
use crate::http::Answer;

const VERSION: &str = "2025-11-25";
/// Where a stream has not said how long to wait before it is resumed.
const RETRY: Duration = Duration::from_secs(1);
/// A stream that does not come back for so long does not come back.
const PATIENCE: Duration = Duration::from_secs(40);
const BETWEEN: Duration = Duration::from_millis(400);

pub struct Session {
    load: Arc<Load>,
    id: String,
}

/// The place in a stream, and how it wants to be resumed.
#[derive(Default)]
struct Place {
    last: Option<String>,
    retry: Option<Duration>,
}

impl Session {
    /// Begins a session that is subscribed to every upstream's numbers, and whose stream stands.
    pub async fn begin(load: &Arc<Load>) -> Result<(Arc<Session>, Listening), Failure> {
        let hello = json!({
            "protocolVersion": VERSION, "capabilities": {}, "clientInfo": { "name": "load", "version": "1" },
        });
        let mut session = Session { load: load.clone(), id: String::new() };
        let id = load.unique();
        let answer = session.post(id, "initialize", &hello).await?;
        session.id = answer.header("mcp-session-id").unwrap_or_default().to_owned();
        session.whole(id, answer).await?;
        let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
        let answer = session.send("POST", None, told).await?;
        if answer.status != 202 {
            return Err(Failure::of(answer).await);
        }
        for upstream in &load.upstreams {
            session.ask("resources/subscribe", &json!({ "uri": upstream.uri() })).await?;
        }
        let session = Arc::new(session);
        let (stream, place) = (session.get(None).await?, Place::default());
        let heard = Heard::from(load, load.number.load(Ordering::SeqCst));
        Ok((session.clone(), Listening { session, stream, place, heard }))
    }

    /// Its calls, until it is enough; then its end.
    pub async fn work(self: Arc<Session>) {
        let mut work = JoinSet::new();
        let short = self.clone();
        work.spawn(async move {
            repeat(&short.load, "legacy_call", BETWEEN, || short.short()).await;
        });
        let list = self.clone();
        work.spawn(async move {
            repeat(&list.load, "legacy_list", 2 * BETWEEN, || list.list()).await;
        });
        let streamed = self.clone();
        work.spawn(async move {
            repeat(&streamed.load, "legacy_streamed_call", BETWEEN, || streamed.streamed()).await;
        });
        work.join_all().await;
    }

    /// DELETE; after it nothing of the session is there.
    pub async fn end(&self) {
        let failure = match self.send("DELETE", None, String::new()).await {
            Ok(answer) if (200..300).contains(&answer.status) => return,
            Ok(answer) => Failure::of(answer).await,
            Err(why) => Failure::from(why),
        };
        self.load.tally.failed("delete", &failure.replica, &failure.why);
    }

    async fn send(&self, verb: &str, last: Option<&str>, body: String) -> Result<Answer, String> {
        let accept = if verb == "GET" { "text/event-stream" } else { "application/json, text/event-stream" };
        let mut headers = vec![("accept", accept), ("mcp-protocol-version", VERSION)];
        if !self.id.is_empty() {
            headers.push(("mcp-session-id", &self.id));
        }
        headers.extend(last.map(|last| ("last-event-id", last)));
        self.load.send(verb, &headers, body).await
    }

    async fn post(&self, id: u64, method: &str, params: &Value) -> Result<Answer, Failure> {
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string();
        let answer = self.send("POST", None, body).await?;
        match answer.status {
            200 => Ok(answer),
            _ => Err(Failure::of(answer).await),
        }
    }

    async fn whole(&self, id: u64, answer: Answer) -> Result<Value, Failure> {
        let replica = answer.replica();
        let message = match answer.is_stream() {
            false => answer.json().await.map_err(|why| Failure::new(&replica, why))?,
            true => self.follow(id, answer, |_| Ok(())).await?,
        };
        result(&message, id).cloned().map_err(|why| Failure::new(&replica, why))
    }

    async fn ask(&self, method: &str, params: &Value) -> Result<Value, Failure> {
        let id = self.load.unique();
        let answer = self.post(id, method, params).await?;
        self.whole(id, answer).await
    }

    async fn list(&self) -> Result<(), Failure> {
        let list = self.ask("tools/list", &json!({})).await?;
        all_listed(&self.load, &list).map_err(|why| Failure::new("-", why))
    }

    async fn short(&self) -> Result<(), Failure> {
        let id = self.load.unique();
        let upstream = &self.load.upstreams[id as usize % self.load.upstreams.len()];
        let call = json!({ "name": format!("{}__echo", upstream.name), "arguments": { "n": id } });
        let said = self.ask("tools/call", &call).await?;
        match said["structuredContent"]["n"] == id {
            true => Ok(()),
            false => Err(Failure::new("-", format!("echo of {id} is {said}"))),
        }
    }

    async fn streamed(&self) -> Result<(), Failure> {
        let id = self.load.unique();
        let upstream = &self.load.upstreams[id as usize % self.load.upstreams.len()];
        let call = json!({
            "name": format!("{}__progress", upstream.name), "arguments": Streamed::arguments(),
            "_meta": { "progressToken": id },
        });
        let mut steps = Streamed::new(id);
        let followed = match self.post(id, "tools/call", &call).await {
            Ok(answer) if answer.is_stream() => {
                self.follow(id, answer, |message| steps.take(message).map(drop)).await.map(drop)
            }
            Ok(answer) => Err(Failure::of(answer).await),
            Err(failure) => Err(failure),
        };
        steps.end(&self.load.tally, followed.is_ok());
        followed
    }

    /// Reads the stream of a request to its response, which it gives, through as many connections as that takes.
    async fn follow(
        &self,
        id: u64,
        mut stream: Answer,
        mut take: impl FnMut(&Value) -> Result<(), String>,
    ) -> Result<Value, Failure> {
        let mut place = Place::default();
        // Whatever comes of it later, this pod had the call.
        let replica = stream.replica();
        loop {
            while let Some(event) = stream.event().await.map_err(|why| Failure::new(&replica, why))? {
                place.at(&event);
                if event.data.is_empty() {
                    continue;
                }
                let message: Value = serde_json::from_slice(&event.data)
                    .map_err(|error| Failure::new(&replica, format!("no JSON: {error}")))?;
                if message["id"].is_null() && message.get("error").is_some() {
                    return Err(Failure::new(&replica, format!("an error on its stream: {message}")));
                }
                take(&message).map_err(|why| Failure::new(&replica, why))?;
                if message["method"].is_null() {
                    result(&message, id).map_err(|why| Failure::new(&replica, why))?;
                    return Ok(message);
                }
            }
            let ended = Instant::now();
            let Some(last) = place.last.clone() else {
                return Err(Failure::new(&replica, "the stream ended before its first event id"));
            };
            drop(stream);
            stream = self.resume("call_stream_not_resumed", &place, &last, ended).await.ok_or_else(|| {
                Failure::new(&replica, format!("its stream was not resumed within {PATIENCE:?}"))
            })?;
            self.load.tally.count("call_streams_resumed", 1);
            self.load.tally.gap("call_streams", ended.elapsed());
        }
    }

    /// The stream again, after the wait it asked for. Each try that fails is a failure of this kind.
    async fn resume(&self, kind: &'static str, place: &Place, last: &str, ended: Instant) -> Option<Answer> {
        tokio::time::sleep(place.retry.unwrap_or(RETRY)).await;
        while ended.elapsed() < PATIENCE {
            match self.get(Some(last)).await {
                Ok(stream) => return Some(stream),
                Err(failure) => self.load.tally.failed(kind, &failure.replica, &failure.why),
            }
            tokio::time::sleep(RETRY).await;
        }
        None
    }

    async fn get(&self, last: Option<&str>) -> Result<Answer, Failure> {
        let answer = self.send("GET", last, String::new()).await?;
        match answer.status == 200 && answer.is_stream() {
            true => Ok(answer),
            false => Err(Failure::of(answer).await),
        }
    }
}

impl Place {
    fn at(&mut self, event: &plasm_mcp::wire::sse::SseEvent) {
        if event.id.is_some() {
            self.last.clone_from(&event.id);
        }
        if let Some(retry) = event.retry {
            self.retry = Some(Duration::from_millis(retry));
        }
    }
}

/// A session's GET stream, from its opening to the end of the load.
pub struct Listening {
    session: Arc<Session>,
    stream: Answer,
    place: Place,
    heard: Heard,
}

impl Listening {
    pub async fn listen(mut self) {
        let load = self.session.load.clone();
        loop {
            tokio::select! {
                ended = self.read() => if let Err(why) = ended {
                    load.tally.failed("stream", &self.stream.replica(), &why);
                },
                () = load.over.cancelled() => break,
            }
            let ended = Instant::now();
            load.tally.count("streams_ended", 1);
            let stream = match self.place.last.clone() {
                Some(last) => self.session.resume("stream_not_resumed", &self.place, &last, ended).await,
                None => None,
            };
            let Some(stream) = stream else {
                load.tally.failed("stream", &self.stream.replica(), "it ended for good");
                break;
            };
            self.stream = stream;
            load.tally.count("streams_resumed", 1);
            load.tally.gap("streams", ended.elapsed());
        }
        let last = load.number.load(Ordering::SeqCst);
        self.heard
            .end(Some(last), ["changes_received", "changes_lost", "changes_doubled", "changes_made_up"]);
    }

    /// Until it ends.
    async fn read(&mut self) -> Result<(), String> {
        while let Some(event) = self.stream.event().await? {
            self.place.at(&event);
            if event.data.is_empty() {
                continue;
            }
            let message: Value =
                serde_json::from_slice(&event.data).map_err(|error| format!("no JSON: {error}"))?;
            if !self.heard.take(&message) {
                let said = message.to_string().chars().take(300).collect::<String>();
                self.session.load.tally.failed(
                    "stream",
                    &self.stream.replica(),
                    &format!("unexpected: {said}"),
                );
            }
        }
        Ok(())
    }
}
