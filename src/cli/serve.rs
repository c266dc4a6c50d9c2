//! `plasm-mcp serve`: the gateway over HTTP.

use super::settings::Settings;
use crate::config::{AuditTo, Config, Values, Watch};
use crate::house::{House, plan_at_signal, watching};
use std::io::IsTerminal as _;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::task::AbortOnDropHandle;

#[derive(Clone, Debug, Default, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub settings: Settings,
    /// Serve the built-in demonstration upstream besides the configured ones
    #[arg(long)]
    pub demo: bool,
}

/// Serves until SIGTERM or SIGINT, then drains. Exit codes: 0 after a drain, 1 when it cannot listen or Redis does not serve it, 2 for a wrong
/// configuration.
pub async fn run(args: Args) -> ExitCode {
    // Before anything is read: a file that changes from then on is another one than what is served.
    let watch = Watch::new(args.settings.files());
    let loaded = match args.settings.load(Values::Needed) {
        Ok(loaded) => loaded,
        Err(error) => {
            eprintln!("{error}");
            return super::USAGE.into();
        }
    };
    for warning in &loaded.warnings {
        eprintln!("warning: {warning}");
    }
    let config = loaded.config;
    if let Err(error) = watching::begin(&config) {
        eprintln!("plasm-mcp: {error}");
        return super::USAGE.into();
    }
    let demo = args.demo || config.demo;
    warn_if_empty(&config, demo);
    let house = match House::build(&config, demo).await {
        Ok(house) => house,
        Err(error) => {
            eprintln!("plasm-mcp: {error}");
            use crate::house::StartError::{Bind, Store};
            return if matches!(error, Bind { .. } | Store(_)) { super::FAILURE } else { super::USAGE }
                .into();
        }
    };
    let signals = match house.lifecycle.clone().obey_signals(plan_at_signal(&config)) {
        Ok(signals) => tokio::spawn(signals),
        Err(error) => {
            eprintln!("plasm-mcp: signals cannot be heard: {error}");
            return super::FAILURE.into();
        }
    };
    let reloading = match reloading(&house, &args.settings, &config, watch) {
        Ok(reloading) => reloading,
        Err(error) => {
            eprintln!("plasm-mcp: signals cannot be heard: {error}");
            return super::FAILURE.into();
        }
    };
    announce(&house, &config);
    house.serve().await;
    signals.abort();
    drop(reloading);
    tracing::info!("ended");
    super::SUCCESS.into()
}

/// Reads the files of the configuration again when they change, and at SIGHUP; without any, that signal ends the process as
/// it does others, for a terminal that closes means that.
fn reloading(
    house: &House,
    settings: &Settings,
    config: &Config,
    watch: Watch,
) -> std::io::Result<Option<AbortOnDropHandle<()>>> {
    if settings.files().is_empty() {
        return Ok(None);
    }
    let (hangups, settings) = (signal(SignalKind::hangup())?, settings.clone());
    let load = move || settings.load(Values::Needed);
    let follow = house.reload(config).follow(watch, hangups, load);
    Ok(Some(AbortOnDropHandle::new(tokio::spawn(follow))))
}

/// Says where the gateway answers: on stdout to a person, and in the log to whoever reads that alone.
fn announce(house: &House, config: &Config) {
    let Ok(listen) = house.address() else { return };
    let banner = banner(&url(config.public_url.as_deref(), config.public_path.as_deref(), listen));
    match config.audit.to {
        // Whoever reads standard output then reads JSON.
        AuditTo::Stdout if !std::io::stderr().is_terminal() => {}
        AuditTo::Stdout => eprint!("{banner}"),
        AuditTo::Off | AuditTo::Otlp => super::show::line(banner),
    }
    let upstreams = config.enabled_upstreams().count();
    let (profiles, version) = (config.served_profiles().len(), env!("CARGO_PKG_VERSION"));
    let admin = house.admin_address().map(tracing::field::display).ok();
    tracing::info!(version, %listen, admin, upstreams, profiles, "serving; probes and metrics are at the admin address");
}

/// Says on stderr that there is nothing to serve, where there is nothing.
pub fn warn_if_empty(config: &Config, demo: bool) {
    let catalogs = config.catalogs.is_on();
    if !demo && !catalogs && config.enabled_upstreams().next().is_none() {
        eprintln!(
            "warning: no upstreams are configured; give --mcp-json FILE, a configuration with upstreams or catalogs, or --demo"
        );
    }
}

fn url(public: Option<&str>, path: Option<&str>, listen: std::net::SocketAddr) -> String {
    let base = public.map_or_else(|| format!("http://{listen}"), str::to_owned);
    format!("{base}{}", path.unwrap_or("/mcp"))
}

/// Where the gateway answers, and what to paste into a client.
fn banner(url: &str) -> String {
    format!(
        r#"plasm-mcp is at {url}

Cursor (.cursor/mcp.json) and the MCP inspector (--config FILE --server plasm):
{{"mcpServers": {{"plasm": {{"type": "http", "url": "{url}"}}}}}}

VS Code (.vscode/mcp.json):
{{"servers": {{"plasm": {{"type": "http", "url": "{url}"}}}}}}

Claude Code:
claude mcp add --transport http plasm {url}
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_banner_says_to_paste_is_json() {
        let text = banner("http://127.0.0.1:8080/mcp");
        let pastes: Vec<_> = text.lines().filter(|line| line.starts_with('{')).collect();
        assert_eq!(pastes.len(), 2);
        for paste in pastes {
            let value: serde_json::Value = serde_json::from_str(paste).unwrap();
            let servers = value.get("mcpServers").or(value.get("servers")).unwrap();
            assert_eq!(servers["plasm"]["url"], "http://127.0.0.1:8080/mcp");
        }
    }

    #[test]
    fn the_url_is_the_public_one_where_there_is_one() {
        let listen = "127.0.0.1:8080".parse().unwrap();
        assert_eq!(url(None, None, listen), "http://127.0.0.1:8080/mcp");
        assert_eq!(url(Some("https://a.example"), Some("/plasm/mcp"), listen), "https://a.example/plasm/mcp");
    }
}
