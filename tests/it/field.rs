//! Faults seen in such systems in the field, replayed from end to end, each under its id.

mod era;
mod federation;
mod json;
mod mrtr;
mod session;
mod stream;
