//! `plasm-mcp drain`: what a pod's preStop hook runs. Tells the gateway of this machine to drain, and waits until it has.

use super::admin::{Address, Failed, ask};
use super::target::duration;
use super::{FAILURE, STILL_DRAINING, SUCCESS};
use http::Method;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

pub const EXIT_CODES: &str = "Exit codes: 0 nothing is in flight any more, or the gateway has ended; 1 it cannot be reached, or \
refuses; 2 wrong command line; 4 calls are still in flight after --wait: the drain goes on.";

/// Where the order is given, and how far it is.
const PAGE: &str = "/drain";
/// How often the gateway is asked how far it is.
const PACE: Duration = Duration::from_millis(100);

#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    admin: Address,
    /// How long to wait until nothing is in flight
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = duration)]
    wait: Duration,
}

pub async fn run(args: Args) -> ExitCode {
    let admin = match args.admin.authority() {
        Ok(admin) => admin,
        Err(code) => return code,
    };
    let until = Instant::now() + args.wait;
    match drain(&admin, until).await {
        Ok(true) => SUCCESS,
        Ok(false) => {
            eprintln!("plasm-mcp: calls are still in flight; the drain goes on");
            STILL_DRAINING
        }
        Err(why) => {
            eprintln!("plasm-mcp: the gateway at {admin} was not drained: {why}");
            FAILURE
        }
    }
    .into()
}

/// Whether nothing was in flight in time.
async fn drain(admin: &str, until: Instant) -> Result<bool, Failed> {
    let mut stage = ask(admin, Method::POST, PAGE).await?;
    while stage.trim() != "drained" {
        if timeout_at(until, sleep(PACE)).await.is_err() {
            return Ok(false);
        }
        match ask(admin, Method::GET, PAGE).await {
            Ok(now) => stage = now,
            // It was told to drain: who is not there any more has done so.
            Err(Failed::NotReached(_)) => return Ok(true),
            Err(refused) => return Err(refused),
        }
    }
    Ok(true)
}
