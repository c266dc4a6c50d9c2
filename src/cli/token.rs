//! `plasm-mcp token`: keys of machines made, hashed and revoked.

use super::admin::{Address, send};
use super::{FAILURE, SUCCESS, USAGE};
use crate::auth::api_key;
use crate::config::is_key_id;
use http::Method;
use serde_json::json;
use std::io::Read;
use std::process::ExitCode;

pub const EXIT_CODES: &str =
    "Exit codes: 0 done; 1 the gateway cannot be reached, or refuses; 2 wrong command line, or no key.";

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Make a key: it is printed on standard output once, what the configuration needs on standard error
    Mint {
        /// Its id, which stands in the key and in the configuration: a-z, 0-9 and -
        id: String,
    },
    /// Print what the configuration says of a key that is read from standard input
    Hash,
    /// Revoke a key, on all pods and for good; or tokens of our authorisation server
    #[command(after_help = EXIT_CODES)]
    Revoke(Revoke),
}

#[derive(Debug, clap::Args)]
#[group(skip)]
struct Revoke {
    /// The key's id, or the key
    #[arg(required_unless_present_any = ["family", "client", "token", "subject"], conflicts_with_all = ["family", "client", "token", "subject"])]
    key: Option<String>,
    /// All tokens of one authorisation, by the claim plasm_family
    #[arg(long, value_name = "ID", conflicts_with_all = ["client", "token", "subject"])]
    family: Option<String>,
    /// All tokens of a client, by its id
    #[arg(long, value_name = "ID", conflicts_with_all = ["token", "subject"])]
    client: Option<String>,
    /// One token, by its jti
    #[arg(long, value_name = "JTI", requires = "issuer")]
    token: Option<String>,
    /// A person who left: whatever lets them in, their logins, sessions and connected accounts, by the subject
    #[arg(long, value_name = "SUB", requires = "tenant", requires = "issuer", conflicts_with = "token")]
    subject: Option<String>,
    /// The person's tenant
    #[arg(long, value_name = "TENANT", requires = "subject")]
    tenant: Option<String>,
    /// The issuer of the token, or of the person's tokens
    #[arg(long, value_name = "URL")]
    issuer: Option<String>,
    #[command(flatten)]
    admin: Address,
    /// The admin token, where the gateway is on another machine
    #[arg(long, value_name = "TOKEN", env = "PLASM_MCP_ADMIN_TOKEN", hide_env_values = true)]
    admin_token: Option<String>,
}

pub async fn run(args: Args) -> ExitCode {
    match args.command {
        Command::Mint { id } => mint(&id),
        Command::Hash => hash(),
        Command::Revoke(args) => return revoke(args).await,
    }
    .into()
}

fn mint(id: &str) -> u8 {
    if !is_key_id(id) {
        eprintln!("plasm-mcp: {id:?} is no id of 1 to 40 characters of a-z, 0-9 and -");
        return USAGE;
    }
    let key = api_key::mint(id);
    println!("{key}");
    // Of what was made just now.
    show(&key)
}

fn hash() -> u8 {
    let mut text = String::new();
    if let Err(error) = std::io::stdin().take(4096).read_to_string(&mut text) {
        eprintln!("plasm-mcp: standard input: {error}");
        return USAGE;
    }
    match api_key::hash(text.trim()) {
        Some((_, hash)) => {
            println!("{hash}");
            SUCCESS
        }
        None => {
            eprintln!("plasm-mcp: this is no key of plasm-mcp token mint (plasm_<id>_<secret>)");
            USAGE
        }
    }
}

/// What the configuration needs of a key, for people.
fn show(key: &str) -> u8 {
    let Some((id, hash)) = api_key::hash(key) else { return FAILURE };
    eprintln!("# what the configuration says of it (the key itself is nowhere else: keep it)");
    eprintln!("auth:\n  api_keys:\n    {id}:\n      hash: {hash}\n      tenant: TENANT\n      scopes: []");
    SUCCESS
}

async fn revoke(args: Revoke) -> ExitCode {
    let admin = match args.admin.authority() {
        Ok(admin) => admin,
        Err(code) => return code,
    };
    let order = match &args {
        Revoke { family: Some(id), .. } => json!({ "family": id }),
        Revoke { client: Some(id), .. } => json!({ "client": id }),
        Revoke { token: Some(id), issuer, .. } => json!({ "token": id, "issuer": issuer }),
        Revoke { subject: Some(subject), tenant, issuer, .. } => {
            json!({ "subject": subject, "tenant": tenant, "issuer": issuer })
        }
        Revoke { key, .. } => {
            let key = key.as_deref().unwrap_or_default();
            let id = key.strip_prefix(api_key::PREFIX).and_then(|rest| rest.split_once('_'));
            json!({ "api_key": id.map_or(key, |(id, _)| id) })
        }
    };
    match send(&admin, Method::POST, "/admin/revoke", args.admin_token.as_deref(), order.to_string()).await {
        Ok(_) => SUCCESS,
        Err(why) => {
            eprintln!("plasm-mcp: nothing was revoked by the gateway at {admin}: {why}");
            FAILURE
        }
    }
    .into()
}
