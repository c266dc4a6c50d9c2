//! Why a session, a plan or a run of one is not to be had, and how the surface says it.

use crate::{
    execute::{fault::Fault, symbols::SeedError, teaching},
    store::StoreError,
};

/// What a foreign session, plan or page comes to is what an unknown one does: nobody learns which.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LogicalError {
    #[error("there is no such session")]
    Unknown,
    #[error("there is no such reference in this session")]
    UnknownRef,
    #[error("the session has expired, and all its symbols are void")]
    Expired,
    /// A catalog that its symbols are of is not served any more, in that form.
    #[error("the catalogs of this session have changed, and all its symbols are void")]
    Void,
    #[error("the intent is longer than {} bytes", super::LONGEST_INTENT)]
    Intent,
    #[error("no seeds")]
    NoSeeds,
    #[error(transparent)]
    Seeds(#[from] SeedError),
    #[error(transparent)]
    Table(#[from] teaching::TooLarge),
    #[error("the plan has expired, or is not of this session")]
    RefExpired,
    #[error("the plan is not what it was: {0}")]
    PlanChanged(String),
    #[error("this run is under way")]
    AlreadyRunning,
    #[error("the pod that ran this went away while it wrote: what was written is not known")]
    OutcomeUnknown,
    /// Nothing is known of the session. It may be there, and a write of it may or may not have been made.
    #[error("the state of sessions is not at hand: {0}")]
    Store(#[from] StoreError),
    /// Others changed it each time that this call tried to.
    #[error("too many change this session at once")]
    Busy,
}

impl From<LogicalError> for Fault {
    fn from(error: LogicalError) -> Fault {
        const ANEW: &str = "call plasm_context with the intent and the seeds, without logical_session_ref; forget all earlier symbols";
        let message = error.to_string();
        let fault = |code, hint: &str| Fault::new(code, message, hint);
        match error {
            LogicalError::Unknown => fault("session_unknown", ANEW),
            LogicalError::UnknownRef => {
                fault("session_unknown", "give a run_ref of this session, or plan again with plasm")
            }
            LogicalError::Expired | LogicalError::Void => fault("session_expired", ANEW),
            LogicalError::Intent => fault("too_large", "say in a sentence what is to be done"),
            LogicalError::NoSeeds => fault("seed_unknown", "name at least one {api, entity}"),
            LogicalError::Seeds(SeedError::Unknown(_)) => {
                fault("seed_unknown", "discover_capabilities shows which there are")
            }
            LogicalError::Seeds(SeedError::TooMany) | LogicalError::Table(_) => {
                fault("too_large", "seed fewer entities, or open another session with fresh: true")
            }
            LogicalError::RefExpired => fault("run_ref_expired", "plan again with plasm"),
            LogicalError::PlanChanged(_) => {
                fault("plan_changed", "plan again with plasm, and look at what changed")
            }
            LogicalError::AlreadyRunning => {
                fault("already_running", "call again for its outcome; it is not run twice").retryable()
            }
            LogicalError::OutcomeUnknown => {
                fault("outcome_unknown", "read what is there; plan again only what is missing")
            }
            LogicalError::Store(_) | LogicalError::Busy => {
                fault("state_store_unavailable", "call again in a few seconds").retryable()
            }
        }
    }
}
