//! `plasm-mcp password`: the hash of a password, for `auth.login.users`.

use crate::auth::browser::hash_password;
use secrecy::SecretString;
use std::io::Read;
use std::process::ExitCode;

/// Longest password, in bytes.
const LONGEST: u64 = 1024;

#[derive(Clone, Debug, clap::Args)]
pub struct Args {}

/// Reads the password from standard input, for a command line can be seen by others; a line break at its end is not part of it.
pub async fn run(_: Args) -> ExitCode {
    let mut text = String::new();
    if let Err(error) = std::io::stdin().lock().take(LONGEST + 2).read_to_string(&mut text) {
        eprintln!("plasm-mcp: standard input cannot be read: {error}");
        return super::FAILURE.into();
    }
    let password = text.strip_suffix('\n').unwrap_or(&text);
    let password = password.strip_suffix('\r').unwrap_or(password);
    if password.is_empty() || password.len() as u64 > LONGEST {
        eprintln!("plasm-mcp: give a password of 1 to {LONGEST} bytes on standard input");
        return super::USAGE.into();
    }
    super::show::line(hash_password(&SecretString::from(password.to_owned())));
    super::SUCCESS.into()
}
