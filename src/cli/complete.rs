//! `plasm-mcp complete`: values for an argument of a prompt or a resource template.

use super::peer::{self, Again};
use super::target::{Target, pair, text_pairs, usage};
use super::{SUCCESS, show};
use crate::wire::Method;
use serde_json::json;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// Complete an argument of this prompt
    #[arg(long, value_name = "NAME", required_unless_present = "template")]
    prompt: Option<String>,
    /// Complete a variable of this resource template
    #[arg(long, value_name = "URI-TEMPLATE", conflicts_with = "prompt")]
    template: Option<String>,
    /// An argument that is given already, as KEY=VALUE; may be given more than once
    #[arg(long, value_name = "KEY=VALUE")]
    context: Vec<String>,
}

pub async fn run(args: Args) -> ExitCode {
    let Args { target, prompt, template, context } = &args;
    peer::run(target, &Again::default(), async |peer| {
        let [word] = target.words() else {
            return Err(usage("give the argument and its beginning: NAME=BEGINNING"));
        };
        let (name, value) = pair(word)?;
        let reference = match (prompt, template) {
            (Some(prompt), _) => json!({"type": "ref/prompt", "name": prompt}),
            (None, template) => json!({"type": "ref/resource", "uri": template}),
        };
        let mut params = json!({"ref": reference, "argument": {"name": name, "value": value}});
        if !context.is_empty() {
            params["context"] = json!({"arguments": text_pairs(context)?});
        }
        let ended = peer.call(Method::Complete, &params).await;
        Ok(peer::finish(peer, ended, |result| {
            let completion = &result["completion"];
            completion["values"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|v| v.as_str())
                .for_each(show::line);
            if completion["hasMore"] == true {
                eprintln!("there are more");
            }
            SUCCESS
        }))
    })
    .await
}
