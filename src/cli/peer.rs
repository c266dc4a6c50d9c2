//! A server as a client command speaks to it: one link, one caller, and what becomes of a call.

use super::target::{Target, Usage, object, usage};
use super::{FAILURE, INPUT_REQUIRED, USAGE, show};
use crate::config::Config;
use crate::house;
use crate::mcp::{
    Access, Ask, Backend, Call, Caller, Cancel, Client, Event, Fault, Kept, Outcome, Principal, Resume,
    UpstreamId,
};
use crate::telemetry::logs;
use crate::upstream::link::Link;
use crate::wire::params::Params;
use crate::wire::{Era, Method, Raw, meta};
use futures_util::StreamExt;
use serde_json::{Map, Value, json};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a server may take to hear that we are done.
const FAREWELL: Duration = Duration::from_secs(3);

/// What the server is called as an upstream of this process.
const SERVER: &str = "server";

/// How a call that ended in `input_required` is gone on with.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Again {
    /// Go on with a call that ended with exit code 3: JSON, @FILE or - with its requestState (if it had one) and
    /// inputResponses, an answer for each key of its inputRequests
    #[arg(long, value_name = "JSON|@FILE")]
    continuation: Option<String>,
}

impl Again {
    fn read(&self) -> Result<Continuation, Usage> {
        let Some(text) = &self.continuation else { return Ok(Continuation::default()) };
        let object = object(text, "--continuation")?;
        let answers = match object.get("inputResponses") {
            Some(Value::Object(answers)) => answers.clone(),
            None => Map::new(),
            Some(_) => return Err(usage("--continuation: inputResponses must be an object")),
        };
        match object.get("requestState") {
            state @ (None | Some(Value::String(_))) => {
                Ok(Continuation { given: true, state: state.cloned(), answers })
            }
            Some(_) => Err(usage("--continuation: requestState must be a string")),
        }
    }
}

#[derive(Default)]
struct Continuation {
    given: bool,
    state: Option<Value>,
    answers: Map<String, Value>,
}

pub struct Peer {
    pub link: Link,
    pub caller: Arc<Caller>,
    pub json: bool,
    again: Continuation,
    timeout: Duration,
    progress: bool,
}

/// What became of a call.
pub enum Ended {
    Result(Raw),
    /// A result that names what the server wants to be told.
    InputRequired(Raw),
    /// A JSON-RPC error object, or one of our own making without a code.
    Error(Raw),
}

impl Peer {
    /// Nothing is sent yet. Errors: the command line cannot be used.
    pub fn of(target: &Target, again: &Again) -> Result<Peer, Usage> {
        if target.verbose {
            logs::begin("info,plasm_mcp=debug", logs::Form::Text, None)
                .map_err(|error| usage(error.to_string()))?;
        }
        let upstream = target.upstream()?;
        let client = Client {
            info: Some(Raw::of(&json!({"name": "plasm-mcp-client", "version": env!("CARGO_PKG_VERSION")}))),
            capabilities: Some(Raw::of(&target.capabilities()?)),
            ..Client::default()
        };
        // It has a session, whatever the server makes of that: it can be asked in the middle of a call. Where the server
        // speaks both eras, the caller's is spoken.
        let caller = Caller {
            access: Arc::new(Access::open(Arc::new(Principal::minted("", "", "")))),
            profile: "".into(),
            client: Arc::new(client),
            version: target.version(),
            session: Arc::new(Kept::session("command line")),
        };
        let id = UpstreamId::new(SERVER).expect("the id has the form of ids");
        let link =
            house::link(id, &upstream, &Config::default()).map_err(|error| usage(error.to_string()))?;
        Ok(Peer {
            link,
            caller: Arc::new(caller),
            json: target.json,
            again: again.read()?,
            timeout: target.timeout(),
            progress: std::io::stderr().is_terminal() || target.verbose,
        })
    }

    pub fn call_of(&self, method: Method, params: &Value) -> Call {
        let mut params = params.clone();
        let mut meta = Map::new();
        if self.progress && method.may_ask() {
            meta.insert("progressToken".into(), json!(0));
        }
        if self.progress && self.caller.version.era() == Era::Modern {
            // Log messages come only to requests that ask for them, and what asks must say all that it speaks.
            let read = |raw: &Option<Raw>| raw.as_ref().and_then(|raw| raw.read::<Value>().ok());
            meta.insert(meta::VERSION.into(), json!(self.caller.version.as_str()));
            meta.insert(meta::CLIENT_INFO.into(), json!(read(&self.caller.client.info)));
            meta.insert(meta::CAPABILITIES.into(), json!(read(&self.caller.client.capabilities)));
            meta.insert(meta::LOG_LEVEL.into(), json!("info"));
        }
        if !meta.is_empty() {
            params["_meta"] = Value::Object(meta);
        }
        let resume = (self.again.given && method.may_ask()).then(|| {
            Arc::new(Resume {
                upstream: self.link.id().clone(),
                state: self.again.state.as_ref().map(|state| Raw::of(state).to_bytes()),
                answers: Raw::of(&self.again.answers),
            })
        });
        let params = Params::read(Raw::of(&params)).expect("params of our own making are an object");
        Call {
            caller: self.caller.clone(),
            progress: params.progress(),
            method,
            params,
            resume,
            trail: None,
            cancel: Cancel::never(),
            deadline: Instant::now() + self.timeout,
            watch: None,
        }
    }

    /// Makes a call and waits for its end; progress and log messages go to stderr meanwhile.
    pub async fn call(&self, method: Method, params: &Value) -> Ended {
        let call = self.call_of(method, params);
        let mut asked = Map::new();
        let mut events = self.link.call(call).await.into_events();
        let outcome = loop {
            match events.next().await {
                Some(Event::Note(note)) => show::note(&note, self.progress),
                Some(Event::Ask(ask)) => self.asked(ask, &mut asked),
                Some(Event::Pause) => {}
                Some(Event::Done(outcome)) => break outcome,
                None => break Outcome::Error(crate::mcp::Reason::Cancelled.into()),
            }
        };
        if !asked.is_empty() {
            // A legacy server asks while the call is open. Nobody is here to answer, so the call is made again with
            // the answers at hand.
            let result = json!({"resultType": "input_required", "inputRequests": asked});
            return Ended::InputRequired(Raw::of(&result));
        }
        match outcome {
            Outcome::Result(result) => Ended::Result(result),
            Outcome::InputRequired(asked) => Ended::InputRequired(asked.result),
            Outcome::Error(fault) => Ended::Error(error_of(fault)),
        }
    }

    /// Answers from the continuation, by the method's name: what is asked a second time goes by `<method>#2`.
    fn asked(&self, ask: Ask, asked: &mut Map<String, Value>) {
        let name = ask.method.as_str();
        let key = (1..).map(|n| if n == 1 { name.to_owned() } else { format!("{name}#{n}") });
        let key = key.into_iter().find(|key| !asked.contains_key(key)).unwrap_or_default();
        match self.again.answers.get(&key) {
            Some(answer) => drop(ask.answer.send(Ok(Raw::of(answer)))),
            None => {
                let params: Value = ask.params.read().unwrap_or_default();
                asked.insert(key, json!({"method": name, "params": params}));
            }
        }
    }

    /// Tells the server that we are done.
    pub async fn close(self) {
        let session = self.caller.session.clone();
        let done = async {
            self.link.end(session).await;
            self.link.hang_up().await;
        };
        // What it does with that is its own business.
        let _ = tokio::time::timeout(FAREWELL, done).await;
    }
}

/// The error object that a fault is to a person or a script.
pub fn error_of(fault: Fault) -> Raw {
    match fault {
        Fault::Upstream(error) => error,
        Fault::Ours(reason) => {
            let data = json!({"reason": reason.word(), "retryable": reason.is_retryable()});
            // Here is no upstream, only the server that was named.
            let message = reason.to_string().replacen(&format!("upstream {SERVER} "), "the server ", 1);
            Raw::of(&json!({"message": message, "data": data}))
        }
    }
}

/// Runs a command: makes the peer, lets it work, ends it, and turns all into the exit code. Interrupted, it failed.
pub async fn run<F>(target: &Target, again: &Again, work: F) -> ExitCode
where
    F: AsyncFnOnce(&Peer) -> Result<u8, Usage>,
{
    run_or(FAILURE, target, again, work).await
}

/// As [`run`], for a command that is `interrupted` as its exit code when it is.
pub async fn run_or<F>(interrupted: u8, target: &Target, again: &Again, work: F) -> ExitCode
where
    F: AsyncFnOnce(&Peer) -> Result<u8, Usage>,
{
    let peer = match Peer::of(target, again) {
        Ok(peer) => peer,
        Err(error) => return refused(&error),
    };
    let code = tokio::select! {
        code = work(&peer) => code,
        _ = tokio::signal::ctrl_c() => Ok(interrupted),
    };
    peer.close().await;
    match code {
        Ok(code) => code.into(),
        Err(error) => refused(&error),
    }
}

fn refused(error: &Usage) -> ExitCode {
    eprintln!("plasm-mcp: {error}");
    USAGE.into()
}

/// Prints what became of a call: a result by `show`, which tells the exit code, or as JSON.
pub fn finish(peer: &Peer, ended: Ended, show: impl FnOnce(&Value) -> u8) -> u8 {
    match ended {
        Ended::Result(result) => {
            let value: Value = result.read().unwrap_or_default();
            if peer.json {
                show::raw(&result);
                return u8::from(value["isError"] == true);
            }
            show(&value)
        }
        Ended::InputRequired(result) => {
            show::raw(&result);
            eprintln!(
                "the server wants input: call again with --continuation @FILE, which holds \
                 {{\"requestState\": …, \"inputResponses\": {{KEY: ANSWER}}}} with the requestState printed (if any) and an \
                 answer for each key of inputRequests"
            );
            INPUT_REQUIRED
        }
        Ended::Error(error) => {
            show::error(peer.json, &error);
            FAILURE
        }
    }
}
