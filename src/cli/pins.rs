//! `plasm-mcp pins`: what is remembered of tools' definitions, and changes accepted.

use std::process::ExitCode;

use super::{FAILURE, SUCCESS, USAGE, settings::Settings};
use crate::config::{Config, Pin, Values};
use crate::store::Store;
use crate::{house, policy};

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print the tools of pinned upstreams with the digests of their definitions, and what has changed
    List {
        /// The upstream; all that are pinned, where it is not given
        upstream: Option<String>,
        #[command(flatten)]
        settings: Box<Settings>,
    },
    /// Accept what changed, for all pods
    Accept {
        upstream: String,
        /// The tool, by the name that the upstream gives it; all of them, where it is not given
        tool: Option<String>,
        #[command(flatten)]
        settings: Box<Settings>,
    },
}

pub async fn run(args: Args) -> ExitCode {
    let (upstream, accepted, settings) = match args.command {
        Command::List { upstream, settings } => (upstream, None, settings),
        Command::Accept { upstream, tool, settings } => (Some(upstream), Some(tool), settings),
    };
    let config = match settings.load(Values::AsWritten) {
        Ok(loaded) => loaded.config,
        Err(error) => {
            eprintln!("plasm-mcp: {error}");
            return USAGE.into();
        }
    };
    if let Some(unknown) = upstream.as_deref().filter(|id| config.upstreams.get(id).is_none()) {
        eprintln!("plasm-mcp: there is no upstream {unknown:?}");
        return USAGE.into();
    }
    if config.store.redis_url.is_none() {
        eprintln!(
            "plasm-mcp: without store.redis_url what is remembered is in the gateway's own memory; put the digest of its log line \
             into upstreams.<id>.pins"
        );
        return FAILURE.into();
    }
    let done = match house::store(&config).await {
        Ok(store) => done(&*store, &config, upstream.as_deref(), accepted).await,
        Err(error) => Err(error.to_string()),
    };
    match done {
        Ok(()) => SUCCESS.into(),
        Err(why) => {
            eprintln!("plasm-mcp: {why}");
            FAILURE.into()
        }
    }
}

/// `accepted`: the tool whose change is accepted, `Some(None)` for all.
async fn done(
    store: &dyn Store,
    config: &Config,
    upstream: Option<&str>,
    accepted: Option<Option<String>>,
) -> Result<(), String> {
    let upstreams = config.upstreams.iter().filter(|(id, of)| match upstream {
        Some(wanted) => *id == wanted,
        None => of.pin != Pin::Off,
    });
    for (id, _) in upstreams {
        if let Some(tool) = &accepted {
            let count =
                policy::accept(store, id, tool.as_deref()).await.map_err(|error| error.to_string())?;
            println!("{id}: {count} changed definitions accepted");
            continue;
        }
        for pin in policy::remembered(store, id).await.map_err(|error| error.to_string())? {
            match pin.changed {
                None => println!("{id} {} {}", pin.tool, pin.digest),
                Some(changed) => println!("{id} {} {} changed {changed}", pin.tool, pin.digest),
            }
        }
    }
    Ok(())
}
