//! Why a stored result is not to be had, or cannot be kept, and how the surface says it.

use object_store::client::HttpError;

use crate::{execute::fault::Fault, store::StoreError};

/// A foreign artifact comes to what an unknown one does: nobody learns which.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    #[error("there is no such artifact in this session")]
    Unknown,
    #[error(
        "that is no artifact's URI: plasm://session/<session>/r/<n> or plasm://execute/<session>/run/<run_id>"
    )]
    Uri,
    #[error("the result is larger than {} MiB", super::LARGEST >> 20)]
    TooLarge,
    /// Larger than the store takes, and there is no object store.
    #[error("the result is larger than {} KiB, and no object store is configured", super::SMALL >> 10)]
    NoObjects,
    #[error("no column {asked:?}: there are {}", .have.join(", "))]
    Column { asked: String, have: Vec<String> },
    /// What came back is not what was stored.
    #[error("the stored result is damaged")]
    Damaged,
    #[error("the state of sessions is not at hand: {0}")]
    Store(#[from] StoreError),
    #[error("the object store did not answer as it should")]
    Objects(#[from] object_store::Error),
    /// Others stored something in this session each time that this call tried to.
    #[error("too many change this session at once")]
    Busy,
}

impl ArtifactError {
    /// For the log: why the object store failed. What it answered is not repeated, for it may name keys.
    pub fn cause(&self) -> String {
        match self {
            ArtifactError::Objects(error) => cause(error),
            other => other.to_string(),
        }
    }
}

fn cause(error: &object_store::Error) -> String {
    use object_store::Error as E;
    let mut within: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = within {
        // Ours: its texts are safe.
        if let Some(error) = error.downcast_ref::<HttpError>() {
            return error.to_string();
        }
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            return error.kind().to_string();
        }
        within = error.source();
    }
    match error {
        E::NotFound { .. } => "there is no such bucket or object",
        E::PermissionDenied { .. } | E::Unauthenticated { .. } => "it refuses the login",
        _ => "it answered with an error, or its login cannot be had",
    }
    .to_owned()
}

impl From<ArtifactError> for Fault {
    fn from(error: ArtifactError) -> Fault {
        const AGAIN: &str = "run the program again: results are kept for a day";
        let message = error.to_string();
        let fault = |code, hint: &str| Fault::new(code, message, hint);
        match error {
            ArtifactError::Unknown => fault("session_unknown", AGAIN),
            ArtifactError::Uri => fault(
                "session_unknown",
                "give the artifact_uri or the run_id of a result, as it stands there",
            ),
            ArtifactError::TooLarge | ArtifactError::NoObjects => {
                fault("too_large", "ask for fewer columns with [a, b], or for fewer rows with | limit(n)")
            }
            ArtifactError::Column { .. } => fault("unknown_field", "name columns of the result"),
            ArtifactError::Damaged => fault("upstream_status", AGAIN),
            ArtifactError::Store(_) | ArtifactError::Objects(_) | ArtifactError::Busy => {
                fault("state_store_unavailable", "call again").retryable()
            }
        }
    }
}
