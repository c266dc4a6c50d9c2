//! What a connection runs over. Most run over TCP as it is, which is then spoken to without a layer between.

use crate::upstream::connect::Io;
use bytes::BytesMut;
use hyper_util::rt::TokioIo;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio_util::io::poll_read_buf;

pub(super) enum Socket {
    Plain(TcpStream),
    /// By TLS or a tunnel.
    Layered(Box<TokioIo<Io>>),
}

impl Socket {
    pub(super) fn of(io: Io) -> Socket {
        match io.into_tcp() {
            Ok(tcp) => Socket::Plain(tcp),
            Err(io) => Socket::Layered(Box::new(TokioIo::new(*io))),
        }
    }

    /// Whether something may have come, or the end. Whoever is told that nothing has is woken once it does.
    pub(super) fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Socket::Plain(tcp) => tcp.poll_read_ready(context),
            // What lies in the layers is not known without a read.
            Socket::Layered(_) => Poll::Ready(Ok(())),
        }
    }

    /// Reads into the room that there is.
    pub(super) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        into: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        match self {
            Socket::Plain(tcp) => poll_read_buf(Pin::new(tcp), context, into),
            Socket::Layered(io) => poll_read_buf(Pin::new(&mut **io), context, into),
        }
    }

    pub(super) fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            // Which it mostly is ready for; then nobody need be noted who waits.
            Socket::Plain(tcp) => match tcp.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    Pin::new(tcp).poll_write(context, bytes)
                }
                written => Poll::Ready(written),
            },
            Socket::Layered(io) => Pin::new(&mut **io).poll_write(context, bytes),
        }
    }

    pub(super) fn poll_write_vectored(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Socket::Plain(tcp) => Pin::new(tcp).poll_write_vectored(context, bytes),
            Socket::Layered(io) => Pin::new(&mut **io).poll_write_vectored(context, bytes),
        }
    }

    pub(super) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Socket::Plain(_) => Poll::Ready(Ok(())),
            Socket::Layered(io) => Pin::new(&mut **io).poll_flush(context),
        }
    }
}
