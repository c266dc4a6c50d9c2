//! The execute surface: what its tools say of one whole gateway, when several pods share one store, when one goes away, and
//! when the store does. Knows the tools by their contract alone.

mod demo;
mod plain;
mod pods;
mod served;
mod stored;
mod surfaces;
