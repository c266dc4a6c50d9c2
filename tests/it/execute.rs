//! The execute surface across pods: what its tools say when several pods share one store, when one goes away, and when the
//! store does. Knows the tools by their contract alone.

mod served;
mod surfaces;
