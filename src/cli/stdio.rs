//! `plasm-mcp stdio`: the gateway on standard input and output. Nothing but the protocol goes to standard output.

use super::serve::warn_if_empty;
use super::settings::Settings;
use crate::config::{AuditTo, Values};
use crate::edge::stdio;
use crate::house::{self, watching};
use crate::lifecycle::{Lifecycle, Plan};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug, Default, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub settings: Settings,
    /// Serve the built-in demonstration upstream besides the configured ones
    #[arg(long)]
    pub demo: bool,
}

/// Serves until the input ends or a signal says so. Exit codes: 0 then, 2 for a wrong configuration.
pub async fn run(args: Args) -> ExitCode {
    let loaded = match args.settings.load(Values::Needed) {
        Ok(loaded) => loaded,
        Err(error) => return refused(&error),
    };
    for warning in &loaded.warnings {
        eprintln!("warning: {warning}");
    }
    let config = loaded.config;
    if config.audit.to == AuditTo::Stdout {
        eprintln!(
            "plasm-mcp: audit.to: standard output is the protocol here; send the audit to otlp, or switch it off"
        );
        return super::USAGE.into();
    }
    if let Err(error) = watching::begin(&config) {
        return refused(&error);
    }
    let lifecycle = Lifecycle::default();
    let store = match house::store(&config).await {
        Ok(store) => store,
        Err(error) => return refused(&error),
    };
    let demo = args.demo || config.demo;
    let (gate, links) = match house::gate(&config, demo, &lifecycle, store) {
        Ok((gate, links)) => (Arc::new(gate), links),
        Err(error) => return refused(&error),
    };
    warn_if_empty(&config, demo);
    let Some(mount) = gate.mount("") else {
        eprintln!("plasm-mcp: the configuration has no default profile");
        return super::USAGE.into();
    };
    // Nobody routes to a pipe.
    let plan = Plan { propagation: Duration::ZERO, ..house::plan(&config) };
    let signals = match lifecycle.clone().obey_signals(plan) {
        Ok(signals) => tokio::spawn(signals),
        Err(error) => {
            eprintln!("plasm-mcp: signals cannot be heard: {error}");
            return super::FAILURE.into();
        }
    };
    let lookout = gate.lookout.clone();
    stdio::serve(gate, mount, &lifecycle, tokio::io::stdin(), tokio::io::stdout()).await;
    signals.abort();
    links.hang_up().await;
    watching::end(&lookout).await;
    super::SUCCESS.into()
}

fn refused(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("plasm-mcp: {error}");
    super::USAGE.into()
}
