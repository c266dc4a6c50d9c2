//! What crosses rooms, tested against real parts.

mod arrows;
mod store;
