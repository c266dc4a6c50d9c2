//! `plasm-mcp list`: what a server has.

use super::peer::{self, Again, Peer, error_of};
use super::target::Target;
use super::{FAILURE, SUCCESS, show};
use crate::mcp::{Age, Backend, Fault, Kind, Listing};
use crate::wire::Raw;
use serde_json::Value;
use std::process::ExitCode;
use std::sync::Arc;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// Only these: tools, prompts, resources or templates; may be given more than once
    #[arg(long, value_enum)]
    kind: Vec<Which>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl Which {
    fn kind(self) -> Kind {
        match self {
            Which::Tools => Kind::Tool,
            Which::Prompts => Kind::Prompt,
            Which::Resources => Kind::Resource,
            Which::Templates => Kind::Template,
        }
    }
}

pub async fn run(args: Args) -> ExitCode {
    let Args { target, kind } = &args;
    peer::run(target, &Again::default(), async |peer| {
        let kinds = match kind.is_empty() {
            true => match declared(peer).await {
                Ok(kinds) => kinds,
                Err(fault) => return Ok(failed(peer, fault)),
            },
            false => kind.iter().map(|which| which.kind()).collect(),
        };
        let mut lists = Vec::new();
        for kind in kinds {
            match peer.link.list(peer.caller.clone(), kind, Age::Fresh).await {
                Ok(list) => lists.push(list),
                Err(fault) => return Ok(failed(peer, fault)),
            }
        }
        print(peer, &lists);
        Ok(SUCCESS)
    })
    .await
}

/// The kinds that the server declares it has.
pub async fn declared(peer: &Peer) -> Result<Vec<Kind>, Fault> {
    let about = peer.link.about(peer.caller.clone()).await?;
    let capabilities: Value = about.capabilities.read().unwrap_or_default();
    Ok(Kind::ALL.into_iter().filter(|kind| capabilities[kind.capability()].is_object()).collect())
}

fn failed(peer: &Peer, fault: Fault) -> u8 {
    show::error(peer.json, &error_of(fault));
    FAILURE
}

fn print(peer: &Peer, lists: &[Arc<Listing>]) {
    if peer.json {
        // Each item as the server wrote it.
        let mut all = Raw::trusted("{}");
        for list in lists.iter().rev() {
            let items: Vec<_> = list.items().iter().map(|item| item.body.to_bytes()).collect();
            let array = [&b"["[..], &items.join(&b","[..]), b"]"].concat();
            all.insert_member(0, list.kind.items_key(), &array);
        }
        return show::raw(&all);
    }
    for list in lists {
        let rows: Vec<_> = list
            .items()
            .iter()
            .map(|item| {
                let body: Value = item.body.read().unwrap_or_default();
                let text = ["description", "title"].iter().find_map(|key| body[*key].as_str());
                (
                    item.name.to_string(),
                    text.unwrap_or_default().lines().next().unwrap_or_default().to_owned(),
                )
            })
            .collect();
        if lists.len() > 1 {
            show::line(format_args!("{} ({})", heading(list.kind), rows.len()));
        }
        show::table(&rows);
    }
}

fn heading(kind: Kind) -> &'static str {
    match kind {
        Kind::Tool => "tools",
        Kind::Prompt => "prompts",
        Kind::Resource => "resources",
        Kind::Template => "resource templates",
    }
}
