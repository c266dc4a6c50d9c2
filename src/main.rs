//! The command line's entry; everything it does lives in `plasm_mcp::cli`.

use std::process::ExitCode;

mod allocator;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

fn main() -> ExitCode {
    plasm_mcp::cli::main()
}
