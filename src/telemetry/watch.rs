//! One call as it is seen from outside, from its arrival to its answer: what is measured of it, the evidence it gives, its
//! audit event and its trace. Where neither of the last two is wanted, it costs some counters and one allocation.

use super::audit::{self, Audit};
use super::evidence::{self, Kind};
use super::meters::{ERAS, Meters, calls};
use super::traces::{self, Carried, Onward, Traced};
use super::usage::Row;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Who calls, asked for when a call is over. None of it is a secret: of a session a part of its id.
pub trait Who: Send + Sync + 'static {
    fn tenant(&self) -> &Arc<str>;
    fn issuer(&self) -> &str;
    fn subject(&self) -> &str;
    /// The OAuth client that the token was given to.
    fn oauth_client(&self) -> Option<&str>;
    /// What the client calls itself, bounded.
    fn client(&self) -> Option<String>;
    /// `""` is the default profile.
    fn profile(&self) -> &str;
    /// The protocol version.
    fn version(&self) -> &'static str;
    fn is_modern(&self) -> bool;
    /// The beginning of the transport session's id; `None` for callers without one.
    fn session(&self) -> Option<String>;
    /// Tells the session, or the pooled identity of callers without one, from all others. Not shown.
    fn key(&self) -> &Arc<str>;
}

/// What a call is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    Tool(String),
    Prompt(String),
    Uri(String),
}

/// What only audit and traces ask for.
#[derive(Default)]
pub struct Detail {
    /// As the client wrote it.
    pub target: Option<Target>,
    /// The JSON-RPC id, as a JSON token.
    pub id: String,
    /// The trace context that came with the call: of its `_meta`, and of the HTTP request around it.
    pub meta: Carried,
    pub http: Carried,
    /// `http`, `sse` or `stdio`.
    pub transport: &'static str,
}

/// How a call ended.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// `ok`, or why not, in a word that metrics bear.
    pub outcome: &'static str,
    /// The JSON-RPC error code, where the client got an error.
    pub code: Option<i64>,
    /// Bytes of the answer.
    pub bytes: usize,
}

impl End {
    fn failed(&self) -> bool {
        !matches!(self.outcome, "ok" | "input_required" | "closed")
    }
}

/// What is watched of calls besides what is measured. One for all edges of a pod.
#[derive(Default)]
pub struct Lookout {
    audit: Option<Audit>,
}

impl Lookout {
    pub fn new(audit: Option<Audit>) -> Arc<Lookout> {
        Arc::new(Lookout { audit })
    }

    /// Whether anybody wants to know more of a call than is counted.
    pub fn is_curious(&self) -> bool {
        self.audit.is_some() || traces::are_on()
    }

    /// A call arrives. `method` is bounded: `other` for what is not of the protocol; `bytes` are those of its params;
    /// `standing`: it does not end by itself.
    pub fn watch(
        self: &Arc<Self>,
        who: Arc<dyn Who>,
        method: &'static str,
        standing: bool,
        bytes: usize,
        detail: impl FnOnce() -> Detail,
    ) -> Arc<Watch> {
        let more = self.is_curious().then(|| Box::new(More::new(self.clone(), &*who, method, detail())));
        let era = usize::from(who.is_modern());
        if !standing {
            calls().in_flight[era].inc();
        }
        Arc::new(Watch {
            who,
            method,
            era,
            standing,
            began: Instant::now(),
            bytes_in: bytes,
            bytes_more: AtomicU64::new(0),
            at: OnceLock::new(),
            over: AtomicBool::new(false),
            more,
        })
    }

    /// Resolves once all audit events that were said before are out, or lost.
    pub async fn flush(&self) {
        if let Some(audit) = &self.audit {
            audit.flush().await;
        }
    }

    /// A request was refused before it became a call: what is known of it is little.
    pub fn refused(&self, refused: audit::Refused<'_>) {
        if let Some(audit) = &self.audit {
            audit.refused(refused);
        }
    }
}

/// A call that is being answered. The last to let it go without an end ends it as `cancelled`.
pub struct Watch {
    who: Arc<dyn Who>,
    method: &'static str,
    era: usize,
    standing: bool,
    began: Instant,
    bytes_in: usize,
    /// Of what preceded the answer.
    bytes_more: AtomicU64,
    at: OnceLock<At>,
    over: AtomicBool,
    more: Option<Box<More>>,
}

/// Where a call went.
struct At {
    meters: Arc<Meters>,
    row: Arc<Row>,
    /// When it was asked; `None`: it was not, for it was known to be away.
    since: Option<Instant>,
    /// Microseconds until the upstream had answered; 0: it has not.
    took: AtomicU64,
}

struct More {
    lookout: Arc<Lookout>,
    detail: Detail,
    traced: Option<Traced>,
    /// What the audit writes of the arguments.
    arguments: OnceLock<audit::Arguments>,
    /// The span of the upstream's part, until it is over.
    onward: Mutex<Option<Onward>>,
}

impl More {
    fn new(lookout: Arc<Lookout>, who: &dyn Who, method: &'static str, detail: Detail) -> More {
        let traced = Traced::begin(who, method, &detail);
        More { lookout, detail, traced, arguments: OnceLock::new(), onward: Mutex::default() }
    }
}

impl Watch {
    /// The call goes to an upstream, of whose tools this is one. The first that is asked counts.
    pub fn at(
        &self,
        meters: &Arc<Meters>,
        tool: Option<&str>,
        arguments: impl FnOnce() -> Option<bytes::Bytes>,
    ) {
        let row = match tool {
            Some(tool) => meters.row(self.who.tenant(), tool),
            None => meters.row(self.who.tenant(), self.method),
        };
        let since = Some(Instant::now());
        let at = At { meters: meters.clone(), row, since, took: AtomicU64::new(0) };
        let _ = self.at.set(at);
        if let (Some(More { lookout, arguments: kept, .. }), Some(tool)) = (self.more.as_deref(), tool)
            && let Some(audit) = &lookout.audit
            && audit.wants_arguments(meters.id(), tool)
            && let Some(text) = arguments()
        {
            let _ = kept.set(audit.arguments(&text));
        }
    }

    /// The call failed for this upstream's sake. Where one was asked already, nothing changes.
    pub fn blame(&self, upstream: &str) {
        if self.at.get().is_none() {
            let meters = Meters::of(upstream);
            let row = meters.row(self.who.tenant(), self.method);
            let _ = self.at.set(At { meters, row, since: None, took: AtomicU64::new(0) });
        }
    }

    /// The upstream's part of the trace begins: what is to be sent along. `None` where the call is not traced.
    pub fn onward(&self, upstream: &str, tool: Option<&str>, transport: &'static str) -> Option<Onward> {
        let more = self.more.as_deref()?;
        let onward = more.traced.as_ref()?.onward(self.method, upstream, tool, transport)?;
        *more.onward.lock().unwrap_or_else(PoisonError::into_inner) = Some(onward.clone());
        Some(onward)
    }

    /// The upstream has answered, in this word. The first time counts.
    pub fn answered(&self, outcome: &'static str) {
        if let Some((at, since)) = self.at.get().and_then(|at| Some((at, at.since?))) {
            let micros = since.elapsed().as_micros().max(1).try_into().unwrap_or(u64::MAX);
            let _ = at.took.compare_exchange(0, micros, Relaxed, Relaxed);
        }
        if let Some(more) = self.more.as_deref()
            && let Some(onward) = more.onward.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            onward.end(outcome);
        }
    }

    /// Bytes that the client is told before the answer.
    pub fn told(&self, bytes: usize) {
        self.bytes_more.fetch_add(bytes as u64, Relaxed);
    }

    /// The call is answered. The first end counts.
    pub fn end(&self, end: End) {
        if self.over.swap(true, Relaxed) {
            return;
        }
        let now = Instant::now();
        let took = now.saturating_duration_since(self.began);
        let failed = end.failed();
        let bytes_out = end.bytes as u64 + self.bytes_more.load(Relaxed);
        self.measure(&end, now, took, bytes_out);
        if let Some(at) = self.at.get() {
            at.row.count(failed, self.bytes_in as u64, bytes_out, took);
        }
        if !failed {
            self.testify();
        }
        if self.more.is_some() {
            self.answered(end.outcome);
            self.tell(&end, took, bytes_out);
        }
    }

    fn measure(&self, end: &End, now: Instant, took: Duration, bytes_out: u64) {
        let (calls, at) = (calls(), self.at.get());
        let is_tool = self.method == "tools/call";
        match at {
            Some(at) if is_tool && end.outcome == "ok" => at.meters.tools_ok[self.era].inc(),
            _ => {
                let upstream = at.map_or("", |at| at.meters.id());
                calls.calls.with_label_values(&[ERAS[self.era], self.method, end.outcome, upstream]).inc();
            }
        }
        calls.bytes_in.observe(self.bytes_in as u64);
        calls.bytes_out.observe(bytes_out);
        if self.standing {
            return;
        }
        calls.in_flight[self.era].dec();
        let took = nanos(took);
        match is_tool {
            true => calls.tool_seconds[self.era].observe(took),
            false => calls.seconds.with(&[ERAS[self.era], self.method]).observe(took),
        }
        if let Some((at, since)) = at.and_then(|at| Some((at, at.since?))) {
            let upstream = match at.took.load(Relaxed) {
                0 => nanos(now.saturating_duration_since(since)),
                micros => micros.saturating_mul(1_000),
            };
            at.meters.seconds.observe(upstream);
        }
    }

    /// What the success of this call is evidence of.
    fn testify(&self) {
        let kind = match self.method {
            "initialize" => Some(Kind::InitializeObserved),
            "tools/list" => Some(Kind::ToolsListed),
            "tools/call" => Some(Kind::ToolCalled),
            _ => None,
        };
        // A legacy client's version was accepted with its `initialize`, a modern one's with each request.
        let spoken = self.era == 1 || kind == Some(Kind::InitializeObserved);
        evidence::note(&*self.who, [spoken.then_some(Kind::ProtocolAccepted), kind]);
    }

    fn tell(&self, end: &End, took: Duration, bytes_out: u64) {
        let Some(more) = self.more.as_deref() else { return };
        if let Some(audit) = &more.lookout.audit {
            audit.call(audit::Call {
                who: self.who.clone(),
                method: self.method,
                target: more.detail.target.clone(),
                upstream: self.at.get().map(|at| at.meters.clone()),
                outcome: end.outcome,
                code: end.code,
                bytes_in: self.bytes_in as u64,
                bytes_out,
                took,
                trace: match &more.traced {
                    Some(traced) => traced.trace_id(),
                    None => more.detail.meta.trace_id().or_else(|| more.detail.http.trace_id()),
                },
                arguments: more.arguments.get().cloned(),
                transport: more.detail.transport,
            });
        }
        if let Some(traced) = &more.traced {
            traced.end(end);
        }
    }
}

fn nanos(took: Duration) -> u64 {
    took.as_nanos().try_into().unwrap_or(u64::MAX)
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Nearly all have ended.
        if *self.over.get_mut() {
            return;
        }
        let outcome = if self.standing { "closed" } else { "cancelled" };
        self.end(End { outcome, code: None, bytes: 0 });
    }
}
