//! Links to MCP servers, of both eras and over every transport: each is a [`Backend`](crate::mcp::Backend).
//!
//! A link decides (era, session, lists, health, who we are to the upstream); a transport only moves messages.
//! Session state is reached through [`mcp::Session`](crate::mcp::Session) alone.

pub mod channel;
pub mod child;
pub mod client;
pub mod connect;
pub mod credentials;
pub mod http;
pub mod introduction;
pub mod lines;
pub mod link;
pub mod pool;
pub mod proxy;
pub mod sse_client;
pub mod transport;
