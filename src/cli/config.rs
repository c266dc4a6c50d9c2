//! `plasm-mcp config`: check a file, show what is in effect, print the schema.

use std::{path::PathBuf, process::ExitCode};

use super::{FAILURE, SUCCESS, USAGE, settings::Settings};
use crate::config::{self, ConfigError, Loaded, Problem, Sources, Values};

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Check a file: 0 if it can be used, 2 with every fault on standard error if not
    ///
    /// Only the files are looked at, not PLASM_MCP_… variables. Secrets and variables that are missing here are warnings.
    Check {
        /// The configuration file (YAML)
        #[arg(required_unless_present = "mcp_json")]
        file: Option<PathBuf>,
        /// A client's file with mcpServers; may be given more than once
        #[arg(long, value_name = "FILE")]
        mcp_json: Vec<PathBuf>,
    },
    /// Print the JSON Schema of the configuration file, for editors
    Schema {
        /// Print a Markdown table of all keys instead
        #[arg(long)]
        table: bool,
    },
    /// Print the configuration in effect, defaults included, without secrets
    Show {
        #[command(flatten)]
        settings: Box<Settings>,
        /// Print JSON instead of YAML
        #[arg(long)]
        json: bool,
    },
}

/// What a command prints and the code it ends with.
#[derive(Debug)]
struct Answer {
    out: String,
    err: String,
    code: u8,
}

pub async fn run(args: Args) -> ExitCode {
    let Answer { out, err, code } = answer(args.command);
    eprint!("{err}");
    // A reader that went away (`config schema | head`) is no failure of ours to report.
    let _ = std::io::Write::write_all(&mut std::io::stdout(), out.as_bytes());
    code.into()
}

fn answer(command: Command) -> Answer {
    match command {
        Command::Check { file, mcp_json } => check(file, mcp_json),
        Command::Schema { table: true } => {
            Answer { out: config::reference(), err: String::new(), code: SUCCESS }
        }
        Command::Schema { table: false } => {
            Answer { out: format!("{:#}\n", config::schema()), err: String::new(), code: SUCCESS }
        }
        Command::Show { settings, json } => show(settings.load(Values::AsWritten), json),
    }
}

fn check(file: Option<PathBuf>, mcp_json: Vec<PathBuf>) -> Answer {
    let name =
        file.iter().chain(&mcp_json).map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ");
    // Variables are there to be filled in, but set nothing: the file is what is checked.
    let environment = std::env::vars().filter(|(name, _)| !name.starts_with("PLASM_MCP_")).collect();
    match config::load(&Sources { file, mcp_json, environment, flags: Vec::new() }, Values::AsWritten) {
        Ok(Loaded { config, warnings, .. }) => {
            let (upstreams, profiles) = (config.enabled_upstreams().count(), config.served_profiles().len());
            let out = format!("{name}: ok, upstreams {upstreams}, profiles {profiles}\n");
            Answer { out, err: lines(&warnings), code: SUCCESS }
        }
        Err(error) => refused(&error),
    }
}

fn show(loaded: Result<Loaded, ConfigError>, json: bool) -> Answer {
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return refused(&error),
    };
    match if json { config::to_json(&loaded) } else { config::to_yaml(&loaded) } {
        Ok(text) => {
            Answer { out: format!("{}\n", text.trim_end()), err: lines(&loaded.warnings), code: SUCCESS }
        }
        Err(error) => Answer { out: String::new(), err: format!("{error}\n"), code: FAILURE },
    }
}

fn refused(error: &ConfigError) -> Answer {
    Answer { out: String::new(), err: format!("{error}\n"), code: USAGE }
}

fn lines(warnings: &[Problem]) -> String {
    warnings.iter().map(|warning| format!("warning: {warning}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plasm.yaml");
        std::fs::write(&file, text).unwrap();
        (folder, file)
    }

    #[test]
    fn a_good_file_is_0_and_says_what_it_has() {
        let (folder, path) = file("upstreams: {a: {url: http://127.0.0.1:1/mcp}}\n");
        let answer = check(Some(path), Vec::new());
        let out = answer.out.replace(&folder.path().display().to_string(), "");
        assert_eq!((answer.code, out.as_str()), (SUCCESS, "/plasm.yaml: ok, upstreams 1, profiles 1\n"));
    }

    #[test]
    fn a_bad_file_is_2_and_says_why_on_standard_error() {
        let (_folder, path) = file("lisen: 127.0.0.1:1\n");
        let answer = check(Some(path), Vec::new());
        assert_eq!((answer.code, answer.out.as_str()), (USAGE, ""));
        assert!(
            answer.err.ends_with("plasm.yaml:1:1: lisen: unknown key; did you mean \"listen\"?\n"),
            "{}",
            answer.err
        );
    }

    #[test]
    fn a_missing_file_is_2() {
        assert_eq!(check(Some("/none/plasm.yaml".into()), Vec::new()).code, USAGE);
    }

    #[test]
    fn show_tells_where_it_came_from_and_hides_secrets_in_both_forms() {
        let (_folder, path) = file(
            "upstreams:\n  a:\n    url: https://a.example/mcp?key=sk-1\n    headers: {X-Key: sk-2, Authorization: {env: NO_SUCH_TOKEN}}\n  \
             b:\n    command: b\n    args: [--token, sk-3]\n    env: {KEY: sk-4}\n",
        );
        let settings = || Settings {
            config: Some(path.clone()),
            listen: Some("127.0.0.1:7".to_owned()),
            ..Default::default()
        };
        for json in [false, true] {
            let answer = show(settings().load(Values::AsWritten), json);
            assert_eq!(answer.code, SUCCESS, "{}", answer.err);
            assert!(!answer.out.contains("sk-"), "{}", answer.out);
            assert!(
                answer.out.contains("NO_SUCH_TOKEN") && answer.out.contains("127.0.0.1:7"),
                "{}",
                answer.out
            );
            assert_eq!(answer.out.contains("# listen: from --listen"), !json);
            assert!(
                answer.err.contains("the environment variable NO_SUCH_TOKEN is not set"),
                "{}",
                answer.err
            );
        }
    }

    #[test]
    fn what_is_shown_is_a_configuration_again() {
        let (_folder, path) =
            file("profiles: {ops: {upstreams: [a]}}\nupstreams: {a: {url: http://a/, timeout: 90s}}\n");
        let settings = Settings { config: Some(path), ..Default::default() };
        let before = settings.load(Values::AsWritten).unwrap().config;
        let (_folder, again) = file(&show(settings.load(Values::AsWritten), false).out);
        let after =
            Settings { config: Some(again), ..Default::default() }.load(Values::AsWritten).unwrap().config;
        assert_eq!(before, after);
    }
}
