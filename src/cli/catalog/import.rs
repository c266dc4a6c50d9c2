//! `plasm-mcp catalog import`: drafts of catalogs on standard output, and what has to be looked at on standard error.

use std::{path::Path, process::ExitCode};

use serde_json::Value as Json;
use url::Url;

use crate::{
    cli::{
        FAILURE, SUCCESS,
        peer::{self, Again, Peer, error_of},
        show,
        target::Target,
    },
    execute::import::{Draft, Server, of_tools},
    mcp::{Age, Backend, Fault, Kind},
};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// From the tools of an MCP server
    #[command(
        override_usage = "plasm-mcp catalog import mcp [OPTIONS] URL\n       plasm-mcp catalog import mcp [OPTIONS] -- COMMAND…"
    )]
    Mcp(Box<Mcp>),
}

#[derive(Debug, clap::Args)]
pub(super) struct Mcp {
    #[command(flatten)]
    target: Target,
    /// The catalog's id; of a program also the upstream that it is in the configuration
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

pub(super) async fn run(command: Command) -> ExitCode {
    let Command::Mcp(args) = command;
    let Mcp { target, name } = &*args;
    peer::run(target, &Again::default(), async |peer| {
        let upstream = target.upstream()?;
        let url = upstream.url.as_deref();
        let name = name.clone().unwrap_or_else(|| named(url, upstream.command.as_deref()));
        Ok(match drafted(peer, &name, url).await {
            Ok(draft) => {
                draft.notes.iter().for_each(|note| eprintln!("note: {note}"));
                show::line(draft.yaml.trim_end());
                SUCCESS
            }
            Err(Failed::Server(fault)) => {
                show::error(peer.json, &error_of(fault));
                FAILURE
            }
            Err(Failed::Draft(why)) => {
                eprintln!("{why}");
                FAILURE
            }
        })
    })
    .await
}

enum Failed {
    Server(Fault),
    /// The draft is no catalog; it says where.
    Draft(String),
}

async fn drafted(peer: &Peer, name: &str, url: Option<&str>) -> Result<Draft, Failed> {
    let about = peer.link.about(peer.caller.clone()).await.map_err(Failed::Server)?;
    let tools = peer.link.list(peer.caller.clone(), Kind::Tool, Age::Fresh).await.map_err(Failed::Server)?;
    let info: Json = about.server_info.as_ref().and_then(|info| info.read().ok()).unwrap_or_default();
    let title = ["title", "name"].iter().find_map(|key| info[*key].as_str());
    let server = Server { name, title, url, writes: false };
    of_tools(&server, &tools).map_err(|error| Failed::Draft(error.to_string()))
}

/// What a server is called that was given no name: its host, or its program.
fn named(url: Option<&str>, program: Option<&str>) -> String {
    let host = url.and_then(|url| Url::parse(url).ok()).and_then(|url| url.host_str().map(str::to_owned));
    let program = || Path::new(program?).file_stem()?.to_str().map(str::to_owned);
    host.or_else(program).unwrap_or_else(|| "server".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_name_is_called_by_its_host_or_its_program() {
        assert_eq!(named(Some("https://notes.example/mcp"), None), "notes.example");
        assert_eq!(named(None, Some("/usr/bin/notes.sh")), "notes");
    }
}
