//! The upstream of `scripts/bench`: one tool, answered as cheaply as it can be, so that what stands before it is what is
//! measured. It reads HTTP/1.1 with `Content-Length` from well-behaved clients only and is no server for anything else.

use std::io;
use std::net::SocketAddr;

use clap::{Parser, ValueEnum};
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Prints `listening URL` and answers until it is killed.
#[derive(Parser)]
#[command(name = "bench-upstream")]
struct Options {
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    #[arg(long, value_enum)]
    era: Era,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Era {
    Modern,
    Legacy,
}

/// About 300 bytes, as a short text with its structured twin.
const CONTENT: &str = r#""content":[{"type":"text","text":"The quick brown fox jumps over the lazy dog while the measured gateway carries this very sentence."}],"structuredContent":{"animal":"fox","jumps":true,"over":"the lazy dog","distance":12.5,"tags":["quick","brown"]},"isError":false"#;
const TOOLS: &str = r#""tools":[{"name":"bench","description":"Answers the same each time.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}]"#;
const SERVER: &str = r#"{"name":"bench","version":"1.0.0"}"#;
const LARGEST_REQUEST: usize = 1024 * 1024;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let options = Options::parse();
    let listener = TcpListener::bind(options.listen).await?;
    println!("listening http://{}/mcp", listener.local_addr()?);
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        // A connection's fault ends that connection alone, and the load generator counts it.
        tokio::spawn(async move { drop(serve(socket, options.era).await) });
    }
}

async fn serve(mut socket: TcpStream, era: Era) -> io::Result<()> {
    let mut input = Vec::with_capacity(16 * 1024);
    let mut output = Vec::with_capacity(4 * 1024);
    loop {
        while let Some((head, whole)) = request(&input)? {
            answer(&input[..head], &input[head..whole], era, &mut output);
            input.drain(..whole);
        }
        if !output.is_empty() {
            socket.write_all(&output).await?;
            output.clear();
        }
        if socket.read_buf(&mut input).await? == 0 {
            return Ok(());
        }
    }
}

/// The lengths of the first request's head and of all of it, once it is there.
fn request(input: &[u8]) -> io::Result<Option<(usize, usize)>> {
    let Some(end) = memmem::find(input, b"\r\n\r\n") else { return Ok(None) };
    let head = end + 4;
    let length = input[..head]
        .split(|byte| *byte == b'\n')
        .filter_map(|line| std::str::from_utf8(line).ok()?.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map_or(Ok(0), |(_, value)| value.trim().parse::<usize>());
    match length {
        Ok(length) if length <= LARGEST_REQUEST => {
            Ok((input.len() >= head + length).then_some((head, head + length)))
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn answer(head: &[u8], body: &[u8], era: Era, output: &mut Vec<u8>) {
    if !head.starts_with(b"POST ") {
        output.extend_from_slice(
            b"HTTP/1.1 405 Method Not Allowed\r\nallow: POST\r\ncontent-length: 0\r\n\r\n",
        );
        return;
    }
    let Some(id) = value(body, b"\"id\":") else {
        output.extend_from_slice(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n");
        return;
    };
    let modern = era == Era::Modern;
    let (mut session, mut status) = ("", "200 OK");
    let stamp = if modern {
        format!(r#","resultType":"complete","_meta":{{"io.modelcontextprotocol/serverInfo":{SERVER}}}"#)
    } else {
        String::new()
    };
    let cache = if modern { r#","ttlMs":60000,"cacheScope":"public""# } else { "" };
    let outcome = match value(body, b"\"method\":") {
        Some(b"\"tools/call\"") => format!(r#""result":{{{CONTENT}{stamp}}}"#),
        Some(b"\"tools/list\"") => format!(r#""result":{{{TOOLS}{cache}{stamp}}}"#),
        Some(b"\"ping\"") if !modern => r#""result":{}"#.to_owned(),
        Some(b"\"server/discover\"") if modern => {
            format!(
                r#""result":{{"supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{}}}}{cache}{stamp}}}"#
            )
        }
        Some(b"\"initialize\"") if !modern => {
            session = "mcp-session-id: bench\r\n";
            format!(
                r#""result":{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}}}},"serverInfo":{SERVER}}}"#
            )
        }
        _ => {
            status = if modern { "404 Not Found" } else { "200 OK" };
            r#""error":{"code":-32601,"message":"Method not found"}"#.to_owned()
        }
    };
    let length = br#"{"jsonrpc":"2.0","id":,}"#.len() + id.len() + outcome.len();
    output.extend_from_slice(
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{session}content-length: {length}\r\n\r\n"
        )
        .as_bytes(),
    );
    output.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    output.extend_from_slice(id);
    output.extend_from_slice(b",");
    output.extend_from_slice(outcome.as_bytes());
    output.extend_from_slice(b"}");
}

/// The scalar that follows the first `key`. No payload of the benchmark has these keys in another place.
fn value<'a>(body: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let rest = body[memmem::find(body, key)? + key.len()..].trim_ascii_start();
    let end = match rest.strip_prefix(b"\"") {
        Some(text) => memchr::memchr(b'"', text)? + 2,
        None => rest.iter().position(|byte| matches!(byte, b',' | b'}'))?,
    };
    Some(rest[..end].trim_ascii_end())
}
