//! What crosses rooms, tested against real parts.

mod arrows;
mod attack;
mod auth;
mod certificates;
mod client_commands;
mod credentials;
mod drain;
mod field;
mod figures;
mod gateway;
mod harness;
mod hostile_client;
mod legacy_edge;
mod lossless;
mod must_show;
mod outbound;
mod owners;
mod pods;
mod reload;
mod serve_command;
mod stdio_edge;
mod store;
mod store_trouble;
mod takeover;
mod upstream_channels;
mod upstream_link;
