//! `plasm-mcp health`: whether the gateway of this machine takes clients. What a container without a shell asks itself.

use super::admin::{Address, ask};
use super::{FAILURE, SUCCESS};
use http::Method;
use std::process::ExitCode;

pub const EXIT_CODES: &str =
    "Exit codes: 0 ready; 1 not ready yet or any more, or not reached; 2 wrong command line.";

#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    admin: Address,
}

pub async fn run(args: Args) -> ExitCode {
    let admin = match args.admin.authority() {
        Ok(admin) => admin,
        Err(code) => return code,
    };
    match ask(&admin, Method::GET, "/readyz").await {
        Ok(_) => SUCCESS,
        Err(why) => {
            eprintln!("plasm-mcp: the gateway at {admin} is not ready: {why}");
            FAILURE
        }
    }
    .into()
}
