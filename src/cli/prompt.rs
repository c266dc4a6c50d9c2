//! `plasm-mcp prompt`: a prompt with its arguments filled in.

use super::peer::{self, Again};
use super::target::{Target, text_pairs, usage};
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
        let (name, words) = target.words().split_first().ok_or_else(|| usage("give the prompt's name"))?;
        let params = json!({"name": name, "arguments": text_pairs(words)?});
        let ended = peer.call(Method::PromptsGet, &params).await;
        Ok(peer::finish(peer, ended, |result| {
            for message in result["messages"].as_array().into_iter().flatten() {
                let role = message["role"].as_str().unwrap_or("nobody");
                show::line(format_args!("{role}: {}", show::block(&message["content"])));
            }
            SUCCESS
        }))
    })
    .await
}
