//! The execute surface: catalogs that type APIs, and the small language in which programs over them are written and
//! checked. Knows neither edges nor how an upstream is reached.

pub mod app;
pub mod artifacts;
pub mod canonical;
pub mod catalog;
pub mod fault;
pub mod import;
pub mod instant;
pub mod language;
pub mod logical;
pub mod names;
pub mod plain;
pub mod plan;
pub mod run;
pub mod sources;
pub mod surface;
pub mod symbols;
pub mod teaching;
pub mod template;
