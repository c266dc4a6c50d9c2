//! Logs, metrics, traces, audit and usage: what is seen of the gateway from outside. Imports nothing of ours but the clock; anyone may
//! import it. Bodies, tokens and full session ids never pass here, but for the arguments that the audit's policy names.

pub mod audit;
pub mod evidence;
pub mod logs;
pub mod meters;
pub mod metrics;
mod outbox;
mod tally;
pub mod traces;
pub mod usage;
pub mod watch;

pub use meters::Meters;
pub use metrics::metrics;
pub use traces::Carried;
pub use watch::{Detail, End, Lookout, Target, Watch, Who};
