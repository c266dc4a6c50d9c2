//! Our authorisation server.

pub mod keys;
pub mod redirects;
