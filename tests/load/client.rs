//! What both eras have in common: a plan of the load, requests that are counted, and answers that are judged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::http::{self, Answer, Header, Target};
use crate::tally::{Numbers, Tally};

/// A streamed call reports so often, and takes so long in all.
pub const STEPS: u64 = 20;
pub const STEP: Duration = Duration::from_millis(250);

/// An upstream that tells of changes in numbers.
pub struct Upstream {
    /// The name that its tools have as a prefix, and that its resource bears.
    pub name: String,
    pub at: Target,
}

impl Upstream {
    pub fn uri(&self) -> String {
        format!("test://load/{}", self.name)
    }
}

/// What all tasks share.
pub struct Load {
    pub gateway: Target,
    pub token: Option<String>,
    pub upstreams: Vec<Upstream>,
    pub tally: Tally,
    /// No new call is begun.
    pub enough: CancellationToken,
    /// The last number is sent, and streams need not stand any more.
    pub over: CancellationToken,
    /// The last number that upstreams were asked to tell.
    pub number: AtomicU64,
    next: AtomicU64,
}

impl Load {
    pub fn new(gateway: Target, token: Option<String>, upstreams: Vec<Upstream>) -> Load {
        Load {
            gateway,
            token: token.map(|token| format!("Bearer {token}")),
            upstreams,
            tally: Tally::new(),
            enough: CancellationToken::new(),
            over: CancellationToken::new(),
            number: AtomicU64::new(0),
            next: AtomicU64::new(1),
        }
    }

    /// A number that no other request has.
    pub fn unique(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub async fn send(&self, verb: &str, headers: &[Header<'_>], body: String) -> Result<Answer, String> {
        let mut all = vec![("content-type", "application/json")];
        all.extend(self.token.as_deref().map(|token| ("authorization", token)));
        all.extend(headers);
        let answer = http::request(&self.gateway, verb, &all, body).await?;
        self.tally.answered(&answer.replica());
        Ok(answer)
    }

    /// Waits, but not longer than calls are to be begun. False: no more are.
    pub async fn pause(&self, long: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(long) => true,
            () = self.enough.cancelled() => false,
        }
    }
}

/// Whatever failed: who had it, and why.
pub struct Failure {
    pub replica: String,
    pub why: String,
}

impl Failure {
    pub fn new(replica: &str, why: impl Into<String>) -> Failure {
        Failure { replica: replica.to_owned(), why: why.into() }
    }

    pub async fn of(answer: Answer) -> Failure {
        let (replica, status) = (answer.replica(), answer.status);
        Failure { replica, why: format!("{status}: {}", answer.told().await) }
    }
}

impl From<String> for Failure {
    fn from(why: String) -> Failure {
        Failure::new("-", why)
    }
}

/// The result of a response to the request `id`, if it is one that a client can use.
pub fn result(message: &Value, id: u64) -> Result<&Value, String> {
    if message["id"] != id {
        return Err(format!("the answer to {id} is another's: {message}"));
    }
    match message.get("result") {
        Some(result) if result["isError"] != true => Ok(result),
        _ => Err(format!("an error: {message}").chars().take(300).collect()),
    }
}

/// Whether a list of tools has a part of every upstream.
pub fn all_listed(load: &Load, list: &Value) -> Result<(), String> {
    let tools = list["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    let has = |name: String| tools.iter().any(|tool| tool["name"] == name);
    match load.upstreams.iter().find(|upstream| !has(format!("{}__echo", upstream.name))) {
        Some(upstream) => Err(format!("{} is missing in the list", upstream.name)),
        None => Ok(()),
    }
}

/// One streamed call as it comes in: its progress in order, each step once, and then its result.
pub struct Streamed {
    pub id: u64,
    steps: Numbers,
}

impl Streamed {
    pub fn new(id: u64) -> Streamed {
        Streamed { id, steps: Numbers::default() }
    }

    pub fn arguments() -> Value {
        json!({ "steps": STEPS, "ms": STEP.as_millis() as u64 })
    }

    /// Takes the next message of its stream. True: it was the last.
    pub fn take(&mut self, message: &Value) -> Result<bool, String> {
        match message["method"].as_str() {
            Some("notifications/progress") if message["params"]["progressToken"] == self.id => {
                let step = message["params"]["progress"].as_f64().unwrap_or_default();
                self.steps.came(step as u64);
                Ok(false)
            }
            Some(_) => Err(format!("not this call's: {message}")),
            None => result(message, self.id).map(|_| true),
        }
    }

    /// Counts what came. `whole`: the call ended well, so every step should have.
    pub fn end(mut self, tally: &Tally, whole: bool) {
        if whole {
            self.steps.end(STEPS);
        }
        tally.count("progress_received", self.steps.last);
        tally.count("progress_lost", self.steps.lost);
        tally.count("progress_doubled", self.steps.doubled);
    }
}

/// Numbered changes of every upstream, as one client hears them.
pub struct Heard {
    load: Arc<Load>,
    of: Vec<Numbers>,
    received: u64,
}

impl Heard {
    /// From this number on: all that come later must come.
    pub fn from(load: &Arc<Load>, number: u64) -> Heard {
        let of = load.upstreams.iter().map(|_| Numbers::after(number)).collect();
        Heard { load: load.clone(), of, received: 0 }
    }

    /// Takes a notification. False: it is none of those.
    pub fn take(&mut self, message: &Value) -> bool {
        if message["method"] != "notifications/resources/updated" {
            // After a gap it is said that everything may have changed.
            return message["method"].as_str().is_some_and(|method| method.ends_with("list_changed"));
        }
        let uri = message["params"]["uri"].as_str().unwrap_or_default();
        let Some(at) = self.load.upstreams.iter().position(|upstream| upstream.uri() == uri) else {
            return false;
        };
        match message["params"]["_meta"]["n"].as_u64() {
            Some(number) => {
                self.received += 1;
                self.of[at].came(number);
            }
            None => {
                self.load.tally.count("changes_without_number", 1);
                self.of[at].excuse();
            }
        }
        true
    }

    /// Counts what came, under these names. `last`: up to this number all should have come.
    pub fn end(mut self, last: Option<u64>, [received, lost, doubled, made_up]: [&'static str; 4]) {
        let tally = &self.load.tally;
        tally.count(received, self.received);
        for numbers in &mut self.of {
            numbers.end(last.unwrap_or(numbers.last));
            tally.count(lost, numbers.lost);
            tally.count(doubled, numbers.doubled);
            tally.count(made_up, numbers.made_up);
        }
    }
}

/// Repeats a call until it is enough, and counts each. `pause` lies between two.
pub async fn repeat<F: Future<Output = Result<(), Failure>>>(
    load: &Load,
    kind: &'static str,
    pause: Duration,
    mut call: impl FnMut() -> F,
) {
    while load.pause(pause).await {
        let since = Instant::now();
        match call().await {
            Ok(()) => load.tally.done(kind, since.elapsed()),
            Err(failure) => load.tally.failed(kind, &failure.replica, &failure.why),
        }
    }
}
