//! `plasm-mcp probe`: what an MCP server is and how fast it answers.

use super::peer::{self, Again, Ended, Peer, error_of};
use super::target::Target;
use super::{FAILURE, SUCCESS, list, show};
use crate::mcp::{Age, Backend, Fault, Kind};
use crate::upstream::link::Met;
use crate::wire::{Era, Method};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    target: Target,
}

/// The steps of a probe and how long each took.
#[derive(Default)]
struct Steps(Vec<(&'static str, Duration)>);

impl Steps {
    async fn time<T>(&mut self, step: &'static str, work: impl Future<Output = T>) -> T {
        let begun = Instant::now();
        let done = work.await;
        self.0.push((step, begun.elapsed()));
        done
    }
}

pub async fn run(args: Args) -> ExitCode {
    let target = &args.target;
    peer::run(target, &Again::default(), async |peer| {
        match probe(peer, &target.name()).await {
            Ok(report) if peer.json => show::line(report),
            Ok(report) => print(&report),
            Err(fault) => {
                show::error(peer.json, &error_of(fault));
                return Ok(FAILURE);
            }
        }
        Ok(SUCCESS)
    })
    .await
}

async fn probe(peer: &Peer, name: &str) -> Result<Value, Fault> {
    let mut steps = Steps::default();
    let Met { version, transport } = steps.time("connect", peer.link.meet(peer.caller.clone())).await?;
    let modern = version.era() == Era::Modern;
    let discovery = if modern { "server/discover" } else { "initialize" };
    let about = steps.time("about", peer.link.about(peer.caller.clone())).await?;
    let mut versions = vec![json!(version.as_str())];
    if modern {
        let ended = steps.time(discovery, peer.call(Method::Discover, &json!({}))).await;
        if let Ended::Result(result) = ended {
            let result: Value = result.read().unwrap_or_default();
            versions = result["supportedVersions"].as_array().cloned().unwrap_or(versions);
        }
    } else {
        // The handshake was the first step; a ping shows what an answer takes.
        steps.time("ping", peer.call(Method::Ping, &json!({}))).await;
    }
    let mut counts = serde_json::Map::new();
    for kind in list::declared(peer).await? {
        let step = match kind {
            Kind::Tool => "tools/list",
            Kind::Prompt => "prompts/list",
            Kind::Resource => "resources/list",
            Kind::Template => "resources/templates/list",
        };
        let listed = steps.time(step, peer.link.list(peer.caller.clone(), kind, Age::Fresh)).await;
        // A server may declare what it does not have.
        let count = listed.map_or(Value::Null, |listed| json!(listed.items().len()));
        counts.insert(kind.items_key().to_owned(), count);
    }
    steps.0.retain(|(step, _)| *step != "about");
    let timings: Vec<_> = steps
        .0
        .iter()
        .map(|(step, took)| json!({"step": step, "ms": (took.as_secs_f64() * 1e4).round() / 10.0}))
        .collect();
    let read = |raw: &Option<crate::wire::Raw>| raw.as_ref().and_then(|raw| raw.read::<Value>().ok());
    Ok(json!({
        "server": name,
        "transport": transport,
        "era": if modern { "modern" } else { "legacy" },
        "version": version.as_str(),
        "supportedVersions": versions,
        "serverInfo": read(&about.server_info),
        "capabilities": about.capabilities.read::<Value>().unwrap_or_default(),
        "instructions": about.instructions,
        "counts": counts,
        "timings": timings,
    }))
}

fn print(report: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list =
        |values: &Value| -> Vec<String> { values.as_array().into_iter().flatten().map(text).collect() };
    let info = &report["serverInfo"];
    let keys = |value: &Value| -> Vec<String> {
        value.as_object().into_iter().flatten().map(|(k, _)| k.clone()).collect()
    };
    let counts = report["counts"].as_object().into_iter().flatten().map(|(kind, n)| format!("{kind} {n}"));
    let timings = report["timings"].as_array().into_iter().flatten();
    let timings = timings.map(|step| format!("{} {} ms", text(&step["step"]), step["ms"]));
    let rows = [
        ("server", text(&report["server"])),
        ("transport", text(&report["transport"])),
        ("era", format!("{} ({})", text(&report["era"]), text(&report["version"]))),
        ("versions", list(&report["supportedVersions"]).join(", ")),
        ("identity", format!("{} {}", text(&info["name"]), text(&info["version"])).trim().to_owned()),
        ("capabilities", keys(&report["capabilities"]).join(", ")),
        ("has", counts.collect::<Vec<_>>().join(", ")),
        ("timings", timings.collect::<Vec<_>>().join(", ")),
        ("instructions", text(&report["instructions"])),
    ];
    let rows = rows.into_iter().filter(|(_, what)| !what.is_empty());
    show::table(&rows.map(|(name, what)| (name.to_owned(), what)).collect::<Vec<_>>());
}
