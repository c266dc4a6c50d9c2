//! What is wrong with a configuration, said so that a person can mend it: where it stands, which key, what to do.

use std::{fmt, path::PathBuf, sync::Arc};

/// Where a setting was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A configuration or `mcp.json` file.
    File(PathBuf),
    /// An environment variable, by name.
    Environment(String),
    /// A command line flag, as it is written (`--listen`).
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File(path) => write!(to, "{}", path.display()),
            Origin::Environment(name) => write!(to, "environment {name}"),
            Origin::Flag(flag) => to.write_str(flag),
        }
    }
}

/// A place in a source. Lines and columns count from 1; 0 means that the source has none or they are unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub origin: Arc<Origin>,
    pub line: u64,
    pub column: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(to, "{}", self.origin),
            line => write!(to, "{}:{line}:{}", self.origin, self.column),
        }
    }
}

/// The keys that lead to a setting; a list's elements are counted from 0 and shown as `[0]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPath(pub Vec<String>);

impl KeyPath {
    pub fn of(keys: &[&str]) -> Self {
        Self(keys.iter().map(|key| (*key).to_owned()).collect())
    }

    pub fn then(&self, key: &str) -> Self {
        let mut keys = self.0.clone();
        keys.push(key.to_owned());
        Self(keys)
    }

    pub fn item(&self, index: usize) -> Self {
        self.then(&format!("[{index}]"))
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, key) in self.0.iter().enumerate() {
            if index > 0 && !key.starts_with('[') {
                to.write_str(".")?;
            }
            to.write_str(key)?;
        }
        Ok(())
    }
}

/// One thing that is wrong, or (as a warning) that is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub place: Option<Place>,
    pub path: KeyPath,
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(to, "{place}: ")?;
        }
        if !self.path.0.is_empty() {
            write!(to, "{}: ", self.path)?;
        }
        to.write_str(&self.message)
    }
}

/// Why there is no configuration. The command line answers each with exit code 2.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{}: cannot be read: {why}", .file.display())]
    Unreadable { file: PathBuf, why: std::io::Error },
    /// The text is not YAML or JSON; the place has line and column.
    #[error("{place}: {message}")]
    Syntax { place: Place, message: String },
    /// Everything that is wrong, in the order of the sources; never empty.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Invalid(Vec<Problem>),
}

/// The known word nearest to what was written, if it is near enough to be what was meant.
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|word| (strsim::jaro_winkler(&written.to_lowercase(), &word.to_lowercase()), word))
        .filter(|(likeness, _)| *likeness >= 0.8)
        // The first of equals wins, so that the text does not depend on the order of a sort.
        .fold(None, |best: Option<(f64, &str)>, next| match best {
            Some(best) if best.0 >= next.0 => Some(best),
            _ => Some(next),
        })
        .map(|(_, word)| word)
}

/// `; did you mean "x"?`, or nothing.
pub fn did_you_mean<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(written, known).map(|word| format!("; did you mean {word:?}?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_named_only_when_it_is_near() {
        let known = ["timeout", "transport", "tools", "listen", "admin_listen"];
        assert_eq!(nearest("tiemout", known), Some("timeout"));
        assert_eq!(nearest("Timeout", known), Some("timeout"));
        assert_eq!(nearest("adminListen", known), Some("admin_listen"));
        assert_eq!(nearest("zzz", known), None);
    }

    #[test]
    fn a_problem_is_one_line_with_place_and_path() {
        let place = Place { origin: Arc::new(Origin::File("plasm.yaml".into())), line: 3, column: 5 };
        let path = KeyPath::of(&["upstreams", "files", "args"]).item(1);
        let problem = Problem { place: Some(place), path, message: "expected text".to_owned() };
        assert_eq!(problem.to_string(), "plasm.yaml:3:5: upstreams.files.args[1]: expected text");
    }
}
