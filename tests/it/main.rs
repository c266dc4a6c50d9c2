//! What crosses rooms, tested against real parts.

mod arrows;
mod harness;
mod store;
mod upstream_channels;
