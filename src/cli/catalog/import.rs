//! `plasm-mcp catalog import`: drafts of catalogs on standard output, and what has to be looked at on standard error.

use std::{io::Read as _, path::Path, process::ExitCode};

use serde_json::Value as Json;
use url::Url;

use crate::{
    cli::{
        FAILURE, SUCCESS, USAGE,
        peer::{self, Again, Peer, error_of},
        show,
        target::Target,
    },
    execute::import::{Api, Draft, LARGEST, Server, of_openapi, of_tools},
    house,
    mcp::{Age, Backend, Fault, Kind},
};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// From the tools of an MCP server
    #[command(
        override_usage = "plasm-mcp catalog import mcp [OPTIONS] URL\n       plasm-mcp catalog import mcp [OPTIONS] -- COMMAND…"
    )]
    Mcp(Box<Mcp>),
    /// From an OpenAPI document, 3.0 or 3.1
    Openapi(Openapi),
}

#[derive(Debug, clap::Args)]
pub(super) struct Mcp {
    #[command(flatten)]
    target: Target,
    /// The catalog's id; of a program also the upstream that it is in the configuration
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct Openapi {
    /// The document, JSON or YAML: a file, its URL, or - for standard input
    #[arg(value_name = "FILE|URL")]
    document: String,
    /// The catalog's id; by default it is made of the document's title
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Where the API's paths begin; by default the document's first server
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Only paths that begin so; may be given more than once
    #[arg(long, value_name = "PREFIX")]
    path: Vec<String>,
}

pub(super) async fn run(command: Command) -> ExitCode {
    match command {
        Command::Mcp(args) => of_server(&args).await,
        Command::Openapi(args) => of_document(&args).await.into(),
    }
}

/// The draft on standard output, its notes on standard error.
fn shown(draft: &Draft) -> u8 {
    draft.notes.iter().for_each(|note| eprintln!("note: {note}"));
    show::line(draft.yaml.trim_end());
    SUCCESS
}

async fn of_document(args: &Openapi) -> u8 {
    let Openapi { document, name, base_url, path } = args;
    let url = Url::parse(document).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let read = match &url {
        Some(url) => house::document(url, LARGEST)
            .await
            .map(|(text, from)| (text, Some(from)))
            .map_err(|why| (why.to_string(), FAILURE)),
        None => {
            text_of(document).map_err(|why| (format!("{document}: {why}"), USAGE)).map(|text| (text, None))
        }
    };
    let (text, from) = match read {
        Ok(read) => read,
        Err((why, code)) => {
            eprintln!("{why}");
            return code;
        }
    };
    let api = Api { name: name.as_deref(), base_url: base_url.as_deref(), from: from.as_ref(), within: path };
    match of_openapi(&text, Path::new(document), &api) {
        Ok(draft) => shown(&draft),
        Err(why) => {
            eprintln!("{document}: {why}");
            FAILURE
        }
    }
}

/// The text of a file, or of standard input.
fn text_of(file: &str) -> std::io::Result<String> {
    let mut text = String::new();
    let most = LARGEST as u64 + 1;
    match file {
        "-" => std::io::stdin().take(most).read_to_string(&mut text)?,
        file => std::fs::File::open(file)?.take(most).read_to_string(&mut text)?,
    };
    Ok(text)
}

async fn of_server(args: &Mcp) -> ExitCode {
    let Mcp { target, name } = args;
    peer::run(target, &Again::default(), async |peer| {
        let upstream = target.upstream()?;
        let url = upstream.url.as_deref();
        let name = name.clone().unwrap_or_else(|| named(url, upstream.command.as_deref()));
        Ok(match drafted(peer, &name, url).await {
            Ok(draft) => shown(&draft),
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
