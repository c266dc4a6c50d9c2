//! The command line's entry; everything it does lives in `plasm_mcp::cli`.
fn main() {}
