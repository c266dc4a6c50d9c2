//! Load for a gateway of several pods, and the judge of what comes back: sessions with open streams that hear numbered
//! changes, streamed calls with numbered progress, short calls and subscriptions, all at once. It resumes what can be
//! resumed, as a client should, repeats nothing else, and prints what was lost, doubled or failed as one JSON object.

mod client;
mod http;
mod legacy;
mod modern;
mod tally;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::timeout;

use client::{Load, Upstream};
use http::Target;

/// Runs until SIGTERM or SIGINT. Prints `running` once everything stands, and the report at the end.
#[derive(Parser)]
#[command(name = "load")]
struct Options {
    /// The gateway's endpoint.
    #[arg(long)]
    url: String,
    #[arg(long, env = "PLASM_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// A fixture behind it, as `NAME=URL`: its id in the gateway, and where it is. Given at least once.
    #[arg(long = "upstream", required = true)]
    upstreams: Vec<String>,
    /// Legacy sessions, each with a GET stream, short calls and streamed calls.
    #[arg(long, default_value_t = 12)]
    sessions: usize,
    /// Modern clients, each with short calls and streamed calls.
    #[arg(long, default_value_t = 6)]
    modern: usize,
    /// Modern subscriptions.
    #[arg(long, default_value_t = 4)]
    listens: usize,
    /// Pause between two numbered changes of each upstream, in milliseconds.
    #[arg(long, default_value_t = 200)]
    every_ms: u64,
}

/// How long the last changes may take to come.
const LAST: Duration = Duration::from_secs(5);
/// How long calls may take to end once no more are begun.
const CALLS: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() {
    let options = Options::parse();
    match run(options).await {
        Ok(()) => {}
        Err(why) => {
            eprintln!("load: {why}");
            std::process::exit(1)
        }
    }
}

async fn run(options: Options) -> Result<(), String> {
    let ended = signals()?;
    let upstreams = options.upstreams.iter().map(|text| upstream(text)).collect::<Result<Vec<_>, _>>()?;
    for upstream in &upstreams {
        tell(upstream, None).await?;
    }
    let load = Arc::new(Load::new(Target::parse(&options.url)?, options.token, upstreams));
    let (mut calls, mut streams, mut sessions) = (JoinSet::new(), JoinSet::new(), Vec::new());
    for _ in 0..options.sessions {
        let (session, stream) = legacy::Session::begin(&load).await.map_err(|failure| failure.why)?;
        streams.spawn(stream.listen());
        calls.spawn(session.clone().work());
        sessions.push(session);
    }
    for _ in 0..options.listens {
        let subscription = modern::Subscription::begin(&load).await.map_err(|failure| failure.why)?;
        streams.spawn(subscription.listen());
    }
    for _ in 0..options.modern {
        calls.spawn(modern::work(load.clone()));
    }
    let teller = tokio::spawn(tell_numbers(load.clone(), Duration::from_millis(options.every_ms)));
    println!("running");

    ended.await;
    load.enough.cancel();
    if timeout(CALLS, async { while calls.join_next().await.is_some() {} }).await.is_err() {
        load.tally.failed("call", "-", "calls did not end");
    }
    teller.await.map_err(|error| error.to_string())??;
    tokio::time::sleep(LAST).await;
    load.over.cancel();
    while streams.join_next().await.is_some() {}
    for session in sessions {
        session.end().await;
    }
    let mut report = load.tally.report();
    report["changes_told"] = load.number.load(Ordering::SeqCst).into();
    println!("{report}");
    Ok(())
}

/// Resolves at SIGTERM or SIGINT; both are heard from here on.
fn signals() -> Result<impl Future<Output = ()>, String> {
    let term = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    let int = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;
    Ok(async move {
        let (mut term, mut int) = (term, int);
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    })
}

fn upstream(text: &str) -> Result<Upstream, String> {
    let (name, url) = text.split_once('=').ok_or("an upstream is NAME=URL")?;
    Ok(Upstream { name: name.to_owned(), at: Target::parse(url)? })
}

/// Has an upstream list its resource, or tell whoever subscribed to it that it changed for the nth time.
async fn tell(upstream: &Upstream, number: Option<u64>) -> Result<(), String> {
    let path = if number.is_some() { "/_touch" } else { "/_add" };
    let body = serde_json::json!({ "uri": upstream.uri(), "n": number }).to_string();
    let answer = http::request(&upstream.at.with_path(path), "POST", &[], body).await?;
    match answer.status {
        204 => Ok(()),
        status => Err(format!("{} does not tell: {status}", upstream.name)),
    }
}

/// Numbers from 1 on, as long as calls are begun and until they have ended.
async fn tell_numbers(load: Arc<Load>, pause: Duration) -> Result<(), String> {
    while load.pause(pause).await {
        let number = load.number.fetch_add(1, Ordering::SeqCst) + 1;
        for upstream in &load.upstreams {
            tell(upstream, Some(number)).await?;
        }
    }
    Ok(())
}
