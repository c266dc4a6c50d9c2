//! `plasm-mcp listen`: a server's notifications as they come.

use super::peer::{self, Again, Peer, error_of};
use super::target::{Target, duration};
use super::{FAILURE, SUCCESS, show};
use crate::mcp::{Backend, Event, Note, Outcome};
use crate::wire::Method;
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// Changes of the list of tools; without any of these flags, of all lists
    #[arg(long)]
    tools: bool,
    /// Changes of the list of prompts
    #[arg(long)]
    prompts: bool,
    /// Changes of the list of resources
    #[arg(long)]
    resources: bool,
    /// Changes of this resource; may be given more than once
    #[arg(long, value_name = "URI")]
    uri: Vec<String>,
    /// Stop after this time, such as 10s
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
}

pub async fn run(args: Args) -> ExitCode {
    let Args { target, tools, prompts, resources, uri, time } = &args;
    let all = !(*tools || *prompts || *resources) && uri.is_empty();
    let filter = json!({"notifications": {
        "toolsListChanged": all || *tools,
        "promptsListChanged": all || *prompts,
        "resourcesListChanged": all || *resources,
        "resourceSubscriptions": uri,
    }});
    // Being told to stop is how it ends.
    peer::run_or(SUCCESS, target, &Again::default(), async |peer| {
        let stop = async {
            match time {
                Some(time) => tokio::time::sleep(*time).await,
                None => std::future::pending().await,
            }
        };
        Ok(tokio::select! {
            code = listen(peer, &filter) => code,
            () = stop => SUCCESS,
        })
    })
    .await
}

async fn listen(peer: &Peer, filter: &Value) -> u8 {
    // A standing call waits for a server that is away; whoever types this wants to know.
    if let Err(fault) = peer.link.meet(peer.caller.clone()).await {
        show::error(peer.json, &error_of(fault));
        return FAILURE;
    }
    let mut events = peer.link.call(peer.call_of(Method::Listen, filter)).await.into_events();
    while let Some(event) = events.next().await {
        match event {
            Event::Note(note) => print(peer.json, &note),
            // Nobody is here to answer: dropped, it is refused.
            Event::Ask(_) | Event::Pause => {}
            Event::Done(Outcome::Error(fault)) => {
                show::error(peer.json, &error_of(fault));
                return FAILURE;
            }
            Event::Done(_) => break,
        }
    }
    eprintln!("the server ended the stream");
    SUCCESS
}

/// What the server agreed to tell of, in a line.
fn agreed(notifications: &Value) -> String {
    let said = notifications.as_object().into_iter().flatten().filter(|(_, what)| **what != json!(false));
    let said: Vec<_> = said.map(|(name, _)| name.as_str()).collect();
    match said.is_empty() {
        true => "listening, but the server tells of none of what was asked for".to_owned(),
        false => format!("listening for {}", said.join(", ")),
    }
}

fn print(as_json: bool, note: &Note) {
    let params: Value = note.params.read().unwrap_or_default();
    if as_json {
        return show::line(json!({"method": note.method.as_str(), "params": params}));
    }
    match note.method {
        Method::Acknowledged => eprintln!("{}", agreed(&params["notifications"])),
        Method::ResourceUpdated => {
            show::line(format_args!(
                "{} {}",
                note.method.as_str(),
                params["uri"].as_str().unwrap_or_default()
            ));
        }
        Method::LogMessage => show::line(format_args!("{} {}", note.method.as_str(), params)),
        _ => show::line(note.method.as_str()),
    }
}
