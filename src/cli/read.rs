//! `plasm-mcp read`: a resource.

use super::peer::{self, Again};
use super::target::{Target, usage};
use super::{SUCCESS, show};
use crate::wire::Method;
use serde_json::json;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    again: Again,
}

pub async fn run(args: Args) -> ExitCode {
    let Args { target, again } = &args;
    peer::run(target, again, async |peer| {
        let [uri] = target.words() else { return Err(usage("give the resource's URI")) };
        let ended = peer.call(Method::ResourcesRead, &json!({ "uri": uri })).await;
        Ok(peer::finish(peer, ended, |result| {
            show::contents(result);
            SUCCESS
        }))
    })
    .await
}
