//! Faults seen in such systems in the field, replayed from end to end, each under its id.

mod era;
mod federation;
mod json;
