//! What a principal may: enter a profile, see a part of it, make a call, and in whose place another decides; and what
//! clients see of a tool's definition. Knows backends by [`mcp::Backend`](crate::mcp::Backend) alone: no HTTP, no status.

mod door;
mod who;

pub use door::{Admission, Door};
