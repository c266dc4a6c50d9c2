//! How artifacts are named: by their number in the session, or by the run that made them.

use std::fmt;

use crate::execute::logical::Handle;

const SESSION: &str = "plasm://session/";
const EXECUTE: &str = "plasm://execute/";
/// Longest name of a run.
const LONGEST: usize = 64;

/// Which artifact of a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Which {
    Number(u64),
    Run(String),
}

impl Which {
    /// By a bare `run_id`; `None` where it has not the form of one.
    pub fn run(id: &str) -> Option<Which> {
        let letters = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        (!id.is_empty() && id.len() <= LONGEST && id.bytes().all(letters)).then(|| Which::Run(id.to_owned()))
    }
}

/// An artifact's URI.
#[derive(Clone, PartialEq, Eq)]
pub struct Uri {
    pub session: Handle,
    pub which: Which,
}

impl Uri {
    /// Both forms; nothing that [`fmt::Display`] would not write so.
    pub fn parse(text: &str) -> Option<Uri> {
        if let Some(rest) = text.strip_prefix(SESSION) {
            let (session, number) = rest.split_once("/r/")?;
            let number: u64 = number.parse().ok()?;
            let uri = Uri { session: Handle::parse(session)?, which: Which::Number(number) };
            return (uri.to_string() == text).then_some(uri);
        }
        let (session, run) = text.strip_prefix(EXECUTE)?.split_once("/run/")?;
        Some(Uri { session: Handle::parse(session)?, which: Which::run(run)? })
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.which {
            Which::Number(number) => write!(to, "{SESSION}{}/r/{number}", self.session),
            Which::Run(run) => write!(to, "{EXECUTE}{}/run/{run}", self.session),
        }
    }
}
