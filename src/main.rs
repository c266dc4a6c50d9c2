//! The command line's entry; everything it does lives in `plasm_mcp::cli`.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    plasm_mcp::cli::main()
}
