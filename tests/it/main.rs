//! What crosses rooms, tested against real parts.

mod store;
