//! JSON-RPC and MCP on the wire: what bytes mean and how they are written. No I/O, nothing of ours above it.
//!
//! Values are carried, never rebuilt: a message is scanned once, what is read of it is a span of the buffer it
//! arrived in, and what must change is an edit of a span ([`Raw`]).

pub mod code;
pub mod envelope;
mod familiar;
pub mod headers;
pub mod id;
pub mod json;
pub mod meta;
pub mod method;
mod outline;
pub mod param_headers;
pub mod params;
pub mod raw;
pub mod results;
pub mod sse;
pub mod version;

pub use envelope::{Message, Notification, Refused, Request, Response};
pub use id::Id;
pub use method::Method;
pub use raw::Raw;
pub use version::{Era, Version};

/// A place in a buffer. Messages are bounded far below 4 GiB, and half the size of `usize` keeps calls small.
pub type Span = std::ops::Range<u32>;
