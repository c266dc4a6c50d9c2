//! Logs and metrics. Imports nothing of ours; anyone may import it. Bodies, tokens and full session ids never pass here.

pub mod logs;
pub mod metrics;

pub use metrics::metrics;
