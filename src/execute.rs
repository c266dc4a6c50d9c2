//! checked. Knows neither edges nor how an upstream is reached.

pub mod canonical;
pub mod catalog;
pub mod names;
