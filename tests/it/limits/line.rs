//! A client on one connection that it keeps: what load comes by, at little cost of its own.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::gateway::modern::Modern;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub struct Line {
    socket: TcpStream,
    request: Vec<u8>,
    read: Vec<u8>,
}

impl Line {
    /// For modern calls of `echo` at this path, under this `Authorization`.
    pub async fn open(address: SocketAddr, path: &str, authorization: &str) -> Line {
        let params = json!({ "name": "echo", "arguments": { "text": "x" } }).to_string();
        let body = Modern::new(address, path, json!({})).message("1", "tools/call", &params);
        let mut head =
            format!("POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in Modern::headers("tools/call", &params) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let request = format!("{head}authorization: {authorization}\r\n\r\n{body}").into_bytes();
        let socket = TcpStream::connect(address).await.expect("the gateway listens");
        socket.set_nodelay(true).expect("a socket takes its options");
        Line { socket, request, read: Vec::with_capacity(4096) }
    }

    /// One call: its status, and how long it took.
    pub async fn call(&mut self) -> (u16, Duration) {
        let begun = Instant::now();
        self.socket.write_all(&self.request).await.expect("the connection is kept");
        self.read.clear();
        let length = loop {
            let n = self.socket.read_buf(&mut self.read).await.expect("an answer");
            assert!(n > 0, "the connection is kept: {}", String::from_utf8_lossy(&self.read));
            if let Some(end) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&self.read[..end]).to_ascii_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let length: usize = length.expect("answers are whole").trim().parse().expect("a number");
                break end + 4 + length;
            }
        };
        while self.read.len() < length {
            assert!(self.socket.read_buf(&mut self.read).await.expect("the rest") > 0);
        }
        let status = std::str::from_utf8(&self.read[9..12]).ok().and_then(|status| status.parse().ok());
        (status.expect("a status"), begun.elapsed())
    }
}
