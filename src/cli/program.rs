//! `plasm-mcp program`: check programs of the execute surface against catalogs and the seeds of a session.

use std::{
    fmt::Write as _,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde::{Deserialize, Serialize};

use super::{FAILURE, SUCCESS, USAGE};
use crate::execute::{
    catalog::load_folder,
    language::{self, ProgramError},
    symbols::{Scope, Seed},
};

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Check programs: 0 if all are accepted, 1 if not, 2 if catalogs, seeds or the file cannot be used
    Check {
        /// The folder of the catalogs
        #[arg(long, value_name = "DIR")]
        catalogs: PathBuf,
        /// The session's entities (JSON): {"seeds": [{"api": …, "entity": …}]}
        #[arg(long, value_name = "FILE")]
        seeds: PathBuf,
        /// FILE has one {"program": …} a line, and one JSON object a line is printed
        #[arg(long)]
        jsonl: bool,
        /// The program, or with --jsonl the programs; - is standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// A file of seeds.
#[derive(Deserialize)]
struct Seeds {
    seeds: Vec<Seed>,
}

/// A line of `--jsonl`; other keys are the file's own.
#[derive(Deserialize)]
struct Line {
    program: String,
}

/// What is printed of a program with `--jsonl`.
#[derive(Serialize)]
struct Verdict<'a> {
    ok: bool,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    refused: Option<Refused<'a>>,
}

#[derive(Serialize)]
struct Refused<'a> {
    code: &'static str,
    line: usize,
    col: usize,
    hint: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<&'a str>,
}

/// What a command prints and the code it ends with.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    out: String,
    err: String,
    code: u8,
}

pub async fn run(args: Args) -> ExitCode {
    let Command::Check { catalogs, seeds, jsonl, file } = args.command;
    let Answer { out, err, code } = check(&catalogs, &seeds, jsonl, &file).unwrap_or_else(|why| Answer {
        out: String::new(),
        err: format!("{why}\n"),
        code: USAGE,
    });
    eprint!("{err}");
    // A reader that went away is no failure of ours to report.
    let _ = io::stdout().write_all(out.as_bytes());
    code.into()
}

fn check(catalogs: &Path, seeds: &Path, jsonl: bool, file: &Path) -> Result<Answer, String> {
    let catalogs = load_folder(catalogs).map_err(|error| error.to_string())?;
    let named = |path: &Path, why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let Seeds { seeds: wanted } =
        serde_json::from_str(&text_of(seeds)?).map_err(|error| named(seeds, &error))?;
    let scope = Scope::of_seeds(&wanted, &catalogs).map_err(|error| named(seeds, &error))?;
    let text = text_of(file)?;
    if jsonl {
        return lines(&text, &scope).map_err(|why| named(file, &why));
    }
    Ok(match language::check(&text, &scope) {
        Ok(_) => Answer { out: "ok\n".to_owned(), err: String::new(), code: SUCCESS },
        Err(error) => {
            let at = error.place(&text);
            let out = format!("{} {}:{} {}\n", error.code.text(), at.line, at.col, error.hint);
            Answer { out, err: error.render(&text), code: FAILURE }
        }
    })
}

fn text_of(file: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = match file.as_os_str() == "-" {
        true => io::stdin().read_to_string(&mut text).map(drop),
        false => std::fs::read_to_string(file).map(|read| text = read),
    };
    read.map_err(|error| format!("{}: cannot be read: {error}", file.display()))?;
    Ok(text)
}

fn lines(text: &str, scope: &Scope) -> Result<Answer, String> {
    let (mut out, mut refused) = (String::new(), 0usize);
    let mut all = 0usize;
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let Line { program } =
            serde_json::from_str(line).map_err(|error| format!("line {}: {error}", index + 1))?;
        let checked = language::check(&program, scope);
        let verdict =
            Verdict { ok: checked.is_ok(), refused: checked.as_ref().err().map(|error| of(error, &program)) };
        let json = serde_json::to_string(&verdict).map_err(|error| error.to_string())?;
        let _ = writeln!(out, "{json}");
        all += 1;
        refused += usize::from(checked.is_err());
    }
    let err = format!("{all} programs, {} accepted, {refused} rejected\n", all - refused);
    Ok(Answer { out, err, code: if refused == 0 { SUCCESS } else { FAILURE } })
}

fn of<'a>(error: &'a ProgramError, program: &str) -> Refused<'a> {
    let at = error.place(program);
    Refused {
        code: error.code.text(),
        line: at.line,
        col: at.col,
        hint: &error.hint,
        fix: error.fix.as_deref(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corpus(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/language").join(name)
    }

    fn checked(jsonl: bool, file: &Path) -> Result<Answer, String> {
        check(&corpus("catalogs"), &corpus("session.json"), jsonl, file)
    }

    #[test]
    fn a_line_in_is_a_line_out() {
        let answer = checked(true, &corpus("accepted.jsonl")).unwrap();
        assert_eq!(answer.code, SUCCESS, "{}", answer.out);
        assert!(answer.out.lines().all(|line| line == r#"{"ok":true}"#));
        let answer = checked(true, &corpus("rejected.jsonl")).unwrap();
        assert_eq!(answer.code, FAILURE);
        assert_eq!(
            answer.out.lines().next(),
            Some(
                r#"{"ok":false,"code":"fields_in_parens","line":1,"col":5,"hint":"columns stand in brackets, at the end: Type | limit(3)[name]","fix":"Type | limit(3)[name]"}"#
            )
        );
    }

    #[test]
    fn one_program_is_ok_or_code_place_and_hint() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("p");
        std::fs::write(&file, "Type | limit(3)[name]\n").unwrap();
        assert_eq!(checked(false, &file).unwrap().out, "ok\n");
        std::fs::write(&file, "Type(pikachu)\n").unwrap();
        let answer = checked(false, &file).unwrap();
        assert_eq!(
            (answer.code, answer.out.as_str()),
            (FAILURE, "bare_word 1:6 text stands in quotes: \"pikachu\"\n")
        );
        assert!(answer.err.contains("^^^^^^^"), "{}", answer.err);
    }

    #[test]
    fn what_cannot_be_read_is_said_by_its_name() {
        let error = checked(false, Path::new("/none/p")).unwrap_err();
        assert!(error.starts_with("/none/p: cannot be read"), "{error}");
        let error = check(&corpus("catalogs"), &corpus("accepted.jsonl"), true, &corpus("accepted.jsonl"))
            .unwrap_err();
        assert!(error.contains("accepted.jsonl: "), "{error}");
    }
}
