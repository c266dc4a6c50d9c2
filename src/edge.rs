//! Listeners and routes: wire in, [`Call`](crate::mcp::Call) out; [`Reply`](crate::mcp::Reply) in, wire out.
//!
//! The only room that knows HTTP statuses, JSON-RPC codes and what a client's era looks like. It knows nothing of
//! upstreams: what answers is a [`Backend`](crate::mcp::Backend).

pub mod answer;
mod aside;
pub mod body;
pub mod callers;
pub mod connect;
mod connection;
mod dispatch;
pub mod era;
mod feed;
pub mod fill;
pub mod gate;
pub mod given;
pub mod guard;
mod heads;
pub mod hello;
pub mod http;
pub mod http_sse;
pub mod legacy;
mod limited;
pub mod listener;
pub mod modern;
pub mod modern_headers;
mod outlet;
pub mod pages;
mod said;
mod seen;
mod site;
pub mod standing;
pub mod state;
pub mod stdio;
pub mod writer;

pub use gate::{Gate, Mount, Routes, Rules};
