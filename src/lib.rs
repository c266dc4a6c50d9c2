//! plasm-mcp: a horizontally scaled, hosted MCP gateway. `docs/architecture.md` is the map of the rooms.

pub mod admin;
pub mod auth;
pub mod cli;
pub mod clock;
pub mod config;
pub mod demo;
pub mod edge;
pub mod egress;
pub mod execute;
pub mod federation;
pub mod house;
pub mod lifecycle;
pub mod limits;
pub mod lines;
pub mod mcp;
pub mod policy;
pub mod relay;
pub mod sealing;
pub mod session;
pub mod store;
pub mod telemetry;
pub mod tls;
pub mod turns;
pub mod upstream;
pub mod vault;
pub mod wire;
