//! HTTP/1.1 messages as bytes (RFC 9112): heads, where bodies end, what goes out. What a server reads and writes; clients of
//! ours share the framing. Knows no sockets, and nothing of what messages are for.

mod date;
mod fields;
mod framing;
mod lines;
mod output;
mod request;
mod response;

pub use fields::{Fields, MOST, Places, line_end, quick_lines};
pub use framing::{Framing, Part};
pub use lines::{line, number_line};
pub use output::Output;
pub use request::{Head, HeadError, HeadReader, Request};
pub use response::{Frames, Misframed, write_head, write_plain};
