//! Sockets: accepts connections, bounds heads and idle time, ends them gracefully.

use super::gate::Gate;
use super::patience::Patient;
use axum::body::Body;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What bounds a connection.
#[derive(Clone, Copy)]
pub struct Bounds {
    /// Largest head in bytes; more is 431.
    pub head: usize,
    /// Longest wait for a head, idle keep-alive included.
    pub head_time: Duration,
}

/// A client that takes no byte of an answer for so long is gone: a stream that it can resume is resumed.
const WRITE_TIME: Duration = Duration::from_secs(60);

/// Serves the public listener until `stop`; then accepts no more, and lets what is open finish until `deadline` is
/// cancelled.
pub async fn public(
    listener: TcpListener,
    gate: Arc<Gate>,
    stop: CancellationToken,
    deadline: CancellationToken,
) {
    let bounds = Bounds { head: gate.rules.header_bytes, head_time: gate.rules.header_read };
    let answer = move |request: Request<Body>| super::http::serve(gate.clone(), request);
    serve(listener, bounds, answer, stop, deadline).await;
}

/// Serves one listener by `answer`.
pub async fn serve<F, A>(
    listener: TcpListener,
    bounds: Bounds,
    answer: F,
    stop: CancellationToken,
    deadline: CancellationToken,
) where
    F: Fn(Request<Body>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Response<Body>> + Send + 'static,
{
    let connections = TaskTracker::new();
    loop {
        let socket = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match socket {
            Ok((socket, _)) => {
                // Small SSE events must leave at once (without this, some 40 ms each).
                let _ = socket.set_nodelay(true);
                connections.spawn(connection(socket, bounds, answer.clone(), stop.clone(), deadline.clone()));
            }
            // Out of file descriptors, or a peer gone before we took it: the next one may do better.
            Err(error) => {
                tracing::warn!(%error, "accepting a connection failed");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    connections.close();
    connections.wait().await;
}

async fn connection<F, A>(
    socket: TcpStream,
    bounds: Bounds,
    answer: F,
    stop: CancellationToken,
    deadline: CancellationToken,
) where
    F: Fn(Request<Body>) -> A + Send + 'static,
    A: Future<Output = Response<Body>> + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(request.map(Body::new));
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut connection = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(bounds.head_time)
            .max_buf_size(bounds.head.max(8192))
            .serve_connection(Patient::new(TokioIo::new(socket), WRITE_TIME), service)
    );
    // A broken connection is the peer's business; what was lost on it is known to the rooms that wrote.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        _ = connection => {}
        () = deadline.cancelled() => {}
    }
}
