//! The command line: which commands there are and what their exit codes mean. Each command is a file of `cli/` with its
//! `Args` and `run`; what a command does lies in the rooms.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub mod config;
pub mod serve;
pub mod settings;
pub mod stdio;

/// The command did what it was asked.
pub const SUCCESS: u8 = 0;
/// The command was understood and failed.
pub const FAILURE: u8 = 1;
/// The command line or the configuration is wrong; clap uses the same code.
pub const USAGE: u8 = 2;

/// A horizontally scaled, hosted MCP gateway.
#[derive(Debug, Parser)]
#[command(name = "plasm-mcp", version, after_help = EXIT_CODES, subcommand_required = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done; 1 failed; 2 wrong command line or configuration.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the gateway over HTTP
    #[command(after_help = EXIT_CODES)]
    Serve(serve::Args),
    /// Serve the gateway on standard input and output
    #[command(after_help = EXIT_CODES)]
    Stdio(stdio::Args),
    /// Check, show or describe a configuration
    #[command(after_help = EXIT_CODES)]
    Config(config::Args),
}

/// Reads the process's arguments and runs the command they name.
pub fn main() -> ExitCode {
    let command = Cli::parse().command;
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
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
            Command::Config(args) => config::run(args).await,
        }
    });
    // A read of standard input may never return, and nobody waits for it any more.
    runtime.shutdown_background();
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
}
