//! The command line: which commands there are and what their exit codes mean. Each command is a file of `cli/` with its
//! `Args` and `run`; what a command does lies in the rooms.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use tokio::runtime::{Builder, Runtime};

mod admin;
mod call;
mod catalog;
mod complete;
pub mod config;
mod drain;
mod health;
mod list;
mod listen;
mod password;
mod peer;
mod pins;
mod probe;
mod program;
mod prompt;
mod read;
pub mod serve;
pub mod settings;
mod show;
pub mod stdio;
mod target;
mod token;

/// The command did what it was asked.
pub const SUCCESS: u8 = 0;
/// The command was understood and failed.
pub const FAILURE: u8 = 1;
/// The command line or the configuration is wrong; clap uses the same code.
pub const USAGE: u8 = 2;
/// The server wants input before it goes on (`--continuation`).
pub const INPUT_REQUIRED: u8 = 3;

/// The pod drains, and its calls have not ended in the time that was given (`drain`).
pub const STILL_DRAINING: u8 = 4;

/// A horizontally scaled, hosted MCP gateway.
#[derive(Debug, Parser)]
#[command(name = "plasm-mcp", version, after_help = EXIT_CODES, subcommand_required = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done; 1 failed; 2 wrong command line or configuration.";
const CLIENT_EXIT_CODES: &str = "Exit codes: 0 done; 1 failed (isError, a JSON-RPC error, not reachable); 2 wrong command \
line; 3 the server wants input: answer with --continuation.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the gateway over HTTP
    #[command(after_help = EXIT_CODES)]
    Serve(serve::Args),
    /// Serve the gateway on standard input and output
    // It has the flags of a configuration, and no listener that some of them are for.
    #[command(after_help = EXIT_CODES, mut_args(without_listener))]
    Stdio(stdio::Args),
    /// Tell what an MCP server is: era, versions, identity, capabilities, timings
    #[command(after_help = CLIENT_EXIT_CODES, override_usage = "plasm-mcp probe [OPTIONS] URL\n       plasm-mcp probe [OPTIONS] -- COMMAND…")]
    Probe(Box<probe::Args>),
    /// List what a server has: tools, prompts, resources, templates
    #[command(after_help = CLIENT_EXIT_CODES, override_usage = "plasm-mcp list [OPTIONS] URL\n       plasm-mcp list [OPTIONS] -- COMMAND…")]
    List(Box<list::Args>),
    /// Call a tool
    #[command(after_help = CLIENT_EXIT_CODES, override_usage = "plasm-mcp call [OPTIONS] URL TOOL [KEY=VALUE]…\n       plasm-mcp call [OPTIONS] TOOL [KEY=VALUE]… -- COMMAND…")]
    Call(Box<call::Args>),
    /// Read a resource
    #[command(after_help = CLIENT_EXIT_CODES, override_usage = "plasm-mcp read [OPTIONS] URL URI\n       plasm-mcp read [OPTIONS] URI -- COMMAND…")]
    Read(Box<read::Args>),
    /// Get a prompt
    #[command(after_help = CLIENT_EXIT_CODES, override_usage = "plasm-mcp prompt [OPTIONS] URL NAME [KEY=VALUE]…\n       plasm-mcp prompt [OPTIONS] NAME [KEY=VALUE]… -- COMMAND…")]
    Prompt(Box<prompt::Args>),
    /// Complete an argument of a prompt or a resource template
    #[command(after_help = CLIENT_EXIT_CODES, override_usage = "plasm-mcp complete [OPTIONS] URL ARGUMENT=BEGINNING\n       plasm-mcp complete [OPTIONS] ARGUMENT=BEGINNING -- COMMAND…")]
    Complete(Box<complete::Args>),
    /// Print a server's notifications until interrupted
    #[command(after_help = CLIENT_EXIT_CODES, override_usage = "plasm-mcp listen [OPTIONS] URL\n       plasm-mcp listen [OPTIONS] -- COMMAND…")]
    Listen(Box<listen::Args>),
    /// Drain the gateway of this machine, and wait until nothing is in flight
    #[command(after_help = drain::EXIT_CODES)]
    Drain(drain::Args),
    /// Tell whether the gateway of this machine takes clients
    #[command(after_help = health::EXIT_CODES)]
    Health(health::Args),
    /// Make, hash or revoke keys of machines
    #[command(after_help = token::EXIT_CODES)]
    Token(token::Args),
    /// Show the remembered definitions of tools, or accept what changed
    #[command(after_help = EXIT_CODES)]
    Pins(pins::Args),
    /// Check, show or describe a configuration
    #[command(after_help = EXIT_CODES)]
    Config(config::Args),
    /// Hash a password from standard input, for `auth.login.users`
    #[command(after_help = EXIT_CODES)]
    Password(password::Args),
    /// Check catalogs of the execute surface, and tell their digests
    #[command(after_help = EXIT_CODES)]
    Catalog(catalog::Args),
    /// Check programs of the execute surface
    #[command(after_help = EXIT_CODES)]
    Program(program::Args),
}

/// Leaves out of the help of a command without a listener what only a listener has.
fn without_listener(arg: clap::Arg) -> clap::Arg {
    let only = ["listen", "admin_listen", "public_url", "insecure_no_auth"];
    let hidden = only.contains(&arg.get_id().as_str());
    arg.hide(hidden)
}

/// Where there is one CPU, threads that steal each other's work would only cost.
fn runtime() -> std::io::Result<Runtime> {
    let alone = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1);
    let mut builder = if alone { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder.enable_all().build()
}

/// Reads the process's arguments and runs the command they name.
pub fn main() -> ExitCode {
    let command = Cli::parse().command;
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("plasm-mcp: cannot start: {error}");
            return FAILURE.into();
        }
    };
    let code = runtime.block_on(async {
        match command {
            Command::Serve(args) => serve::run(args).await,
            Command::Stdio(args) => stdio::run(args).await,
            Command::Probe(args) => probe::run(*args).await,
            Command::List(args) => list::run(*args).await,
            Command::Call(args) => call::run(*args).await,
            Command::Read(args) => read::run(*args).await,
            Command::Prompt(args) => prompt::run(*args).await,
            Command::Complete(args) => complete::run(*args).await,
            Command::Listen(args) => listen::run(*args).await,
            Command::Drain(args) => drain::run(args).await,
            Command::Health(args) => health::run(args).await,
            Command::Token(args) => token::run(args).await,
            Command::Pins(args) => pins::run(args).await,
            Command::Config(args) => config::run(args).await,
            Command::Password(args) => password::run(args).await,
            Command::Catalog(args) => catalog::run(args).await,
            Command::Program(args) => program::run(args).await,
        }
    });
    // A read of standard input may never return, and nobody waits for it any more. Tasks are dropped before.
    runtime.shutdown_timeout(Duration::from_millis(200));
    code
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_tells_the_exit_codes() {
        assert!(Cli::command().render_help().to_string().contains("2 wrong command line or configuration"));
    }

    #[test]
    fn stdio_does_not_offer_the_flags_of_a_listener() {
        let mut command = Cli::command();
        let stdio = command.find_subcommand_mut("stdio").expect("there is such a command");
        let help = stdio.render_help().to_string();
        assert!(help.contains("--mcp-json") && !help.contains("--listen"), "{help}");
    }
}
