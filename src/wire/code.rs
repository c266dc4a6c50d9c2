//! JSON-RPC and MCP error codes, and the codes of our own.

pub const PARSE: i32 = -32700;
pub const INVALID_REQUEST: i32 = -32600;
pub const METHOD_NOT_FOUND: i32 = -32601;
pub const INVALID_PARAMS: i32 = -32602;
pub const INTERNAL: i32 = -32603;
/// Legacy only: resource not found (2025-11-25 and earlier).
pub const RESOURCE_NOT_FOUND: i32 = -32002;
/// Legacy only: "Session not found", kept for the clients that know it.
pub const SESSION_NOT_FOUND: i32 = -32016;
/// Modern: a header is missing, malformed, or differs from the body.
pub const HEADER_MISMATCH: i32 = -32020;
/// Modern: the request needs a client capability that was not declared.
pub const MISSING_CAPABILITY: i32 = -32021;
/// Modern: the protocol version is not one of ours.
pub const UNSUPPORTED_VERSION: i32 = -32022;
/// 2025-11-25 only: URL elicitation required.
pub const URL_ELICITATION: i32 = -32042;

/// Refusals before the era is known carry the HTTP status as code: outside the range that JSON-RPC reserves
/// (-32768 to -32000), so that no reader takes them for a protocol error.
pub const fn refused(status: u16) -> i32 {
    status as i32
}
