//! What crosses rooms, tested against real parts.

mod arrows;
mod harness;
mod stdio_edge;
mod store;
mod upstream_channels;
