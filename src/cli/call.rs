//! `plasm-mcp call`: a tool.

use super::peer::{self, Again};
use super::show;
use super::target::{Target, object, pairs, usage};
use crate::wire::Method;
use serde_json::json;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// The arguments as a JSON object instead of KEY=VALUE words: JSON, @FILE or -
    #[arg(long, value_name = "JSON|@FILE")]
    args: Option<String>,
    #[command(flatten)]
    again: Again,
}

pub async fn run(args: Args) -> ExitCode {
    let Args { target, args, again } = &args;
    peer::run(target, again, async |peer| {
        let (tool, words) = target.words().split_first().ok_or_else(|| usage("give the tool's name"))?;
        let mut arguments = match args {
            Some(text) => object(text, "--args")?,
            None => json!({}),
        };
        if let (Some(all), Some(more)) = (arguments.as_object_mut(), pairs(words)?.as_object_mut()) {
            all.append(more);
        }
        let ended = peer.call(Method::ToolsCall, &json!({"name": tool, "arguments": arguments})).await;
        Ok(peer::finish(peer, ended, |result| {
            show::line(show::tool_result(result));
            u8::from(result["isError"] == true)
        }))
    })
    .await
}
