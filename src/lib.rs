//! plasm-mcp: a horizontally scaled, hosted MCP gateway. `docs/architecture.md` is the map of the rooms.

pub mod cli;
pub mod config;
pub mod mcp;
pub mod sealing;
pub mod store;
pub mod upstream;
pub mod wire;
