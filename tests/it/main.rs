//! What crosses rooms, tested against real parts.
