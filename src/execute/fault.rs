//! Why a tool of the surface did not do what it was asked for, as its result says it
//! (`structuredContent.error` beside `isError: true`).

use serde::Serialize;

/// A code, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// Stable, snake_case: a program's error, or one of a session, a run or a source.
    pub code: &'static str,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub col: Option<u32>,
    /// What to change.
    pub hint: String,
    /// The corrected program, where it can be derived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// Whether the same call may succeed later.
    pub retryable: bool,
}

impl Fault {
    pub fn new(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Fault {
        let (message, hint) = (message.into(), hint.into());
        Fault { code, message, line: None, col: None, hint, fix: None, retryable: false }
    }

    /// The same call may succeed later.
    pub fn retryable(self) -> Fault {
        Fault { retryable: true, ..self }
    }
}
