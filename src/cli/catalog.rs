//! `plasm-mcp catalog`: check catalogs, tell their digests, print the schema of their files, draft new ones.

use std::{fmt::Write as _, path::PathBuf, process::ExitCode};

use super::{FAILURE, SUCCESS, USAGE};
use crate::execute::catalog::{self, CatalogError, Loaded, schema};

mod import;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Check catalogs: 0 if they can be used, 2 with every fault on standard error if not
    ///
    /// What should be looked at, though it can be used, is a warning.
    Check {
        /// Catalogs (YAML), or folders of them
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
        /// Hosts that catalogs may reach; given once or more, any other host is a fault
        #[arg(long, value_name = "HOST")]
        allow_host: Vec<String>,
        /// End with 1 where there are warnings
        #[arg(long)]
        strict: bool,
    },
    /// Print each catalog's digest and id
    Digest {
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
    },
    /// Print the JSON Schema of a catalog's file, for editors
    Schema,
    /// Draft a catalog, for review: what may write is disabled in it
    #[command(subcommand)]
    Import(import::Command),
}

/// What a command prints and the code it ends with.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    out: String,
    err: String,
    code: u8,
}

impl Answer {
    fn of(out: String) -> Self {
        Self { out, err: String::new(), code: SUCCESS }
    }
}

pub async fn run(args: Args) -> ExitCode {
    let Answer { out, err, code } = match args.command {
        Command::Import(import) => return import::run(import).await,
        Command::Check { paths, allow_host, strict } => check(&paths, &allow_host, strict),
        Command::Digest { paths } => digest(&paths),
        Command::Schema => Answer::of(format!("{:#}\n", schema())),
    };
    eprint!("{err}");
    // A reader that went away (`catalog schema | head`) is no failure of ours to report.
    let _ = std::io::Write::write_all(&mut std::io::stdout(), out.as_bytes());
    code.into()
}

/// The catalogs of files and folders, each with its path, or why there is none.
fn load(paths: &[PathBuf]) -> Vec<Result<Loaded, CatalogError>> {
    let mut loaded = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => match catalog::load_folder(path) {
                Ok(catalogs) => loaded.extend(catalogs.iter().map(|(_, one)| Ok(one.clone()))),
                Err(error) => loaded.push(Err(error)),
            },
            false => loaded.push(catalog::load_file(path)),
        }
    }
    loaded
}

fn check(paths: &[PathBuf], allowed: &[String], strict: bool) -> Answer {
    let mut answer = Answer::of(String::new());
    for loaded in load(paths) {
        match loaded {
            Ok(loaded) => {
                let catalog = &loaded.catalog;
                for warning in &loaded.warnings {
                    let _ = writeln!(answer.err, "warning: {warning}");
                }
                if strict && !loaded.warnings.is_empty() {
                    answer.code = answer.code.max(FAILURE);
                }
                let outside = catalog.source.reached_hosts();
                for host in outside.iter().filter(|host| !allowed.is_empty() && !allowed.contains(host)) {
                    let _ = writeln!(answer.err, "{}: the host {host} is outside the allowlist", catalog.id);
                    answer.code = USAGE;
                }
                let (entities, operations) = (catalog.entities.len(), catalog.operations.len());
                let _ =
                    writeln!(answer.out, "{}: ok, entities {entities}, operations {operations}", catalog.id);
            }
            Err(error) => {
                let _ = writeln!(answer.err, "{error}");
                answer.code = USAGE;
            }
        }
    }
    answer
}

fn digest(paths: &[PathBuf]) -> Answer {
    let mut answer = Answer::of(String::new());
    for loaded in load(paths) {
        match loaded {
            Ok(loaded) => drop(writeln!(answer.out, "{}  {}", loaded.digest, loaded.catalog.id)),
            Err(error) => {
                let _ = writeln!(answer.err, "{error}");
                answer.code = USAGE;
            }
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn corpus() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/language/catalogs")
    }

    #[test]
    fn a_folder_of_catalogs_is_checked_and_digested() {
        let answer = check(&[corpus()], &[], true);
        assert_eq!((answer.code, answer.err.as_str()), (SUCCESS, ""));
        assert_eq!(answer.out.lines().last(), Some("tracker: ok, entities 3, operations 8"));
        let digests = digest(&[corpus().join("notes.yaml")]);
        assert_eq!(digests.out.len(), 64 + "  notes\n".len());
    }

    #[test]
    fn a_host_that_is_not_allowed_is_a_fault() {
        let answer = check(&[corpus().join("tracker.yaml")], &["pokeapi.co".to_owned()], false);
        assert_eq!(answer.code, USAGE);
        assert_eq!(answer.err, "tracker: the host tracker.example.com is outside the allowlist\n");
    }

    #[test]
    fn a_login_at_another_host_is_looked_at_too() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        let text = std::fs::read_to_string(corpus().join("tracker.yaml")).unwrap();
        let login = "{scheme: client_credentials, token_url: \"https://login.example/token\", client_id: i, secret: s}";
        std::fs::write(&file, text.replace("{scheme: bearer, secret: tracker_token}", login)).unwrap();
        let answer = check(&[file], &["tracker.example.com".to_owned()], false);
        assert_eq!(answer.err, "tracker: the host login.example is outside the allowlist\n");
    }

    #[test]
    fn warnings_are_1_only_when_that_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        let text = std::fs::read_to_string(corpus().join("notes.yaml")).unwrap();
        std::fs::write(&file, format!("{text}types: {{spare: {{base: int}}}}\n")).unwrap();
        let files = [file];
        assert_eq!((check(&files, &[], false).code, check(&files, &[], true).code), (SUCCESS, FAILURE));
        assert!(check(&files, &[], true).err.ends_with("types.spare: nothing has this type\n"));
    }

    #[test]
    fn a_missing_file_is_2() {
        assert_eq!(digest(&["/none/a.yaml".into()]).code, USAGE);
    }
}
