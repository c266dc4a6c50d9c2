//! Sockets: accepts connections, bounds heads and idle time, ends them gracefully.

use super::aside::Aside;
use super::connection::Connection;
use super::gate::Gate;
use super::given::Given;
use super::heads::Heads;
use crate::http1::Request;
use crate::lifecycle::Lifecycle;
use crate::limits::Neighbours;
use crate::telemetry::metrics;
use crate::ticks;
use arc_swap::ArcSwap;
use axum::body::Body;
use futures_util::FutureExt;

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What bounds a connection.
#[derive(Clone)]
pub struct Bounds {
    /// Largest head in bytes; more is 431.
    pub head: usize,
    /// Longest wait for a head, idle keep-alive included.
    pub head_time: Duration,
    /// Connections that are open at once; further ones wait to be accepted.
    pub connections: usize,
    /// Those of one address, where they are bounded.
    pub neighbours: Option<Arc<Neighbours>>,
}

/// How many connections of clients may be open: half of what this process may open at all, for the calls that come by
/// them need connections upstream.
pub fn most_connections() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: getrlimit writes the struct that it is given, which lives here, and touches nothing else.
    let read = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    let open = if read == 0 { usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX) } else { 1024 };
    (open / 2).clamp(16, Semaphore::MAX_PERMITS)
}

/// When a listener ends, in three steps.
#[derive(Clone)]
pub struct Ends {
    /// No connection is accepted any more. Those that are open serve on, idle ones too: a proxy that keeps them may write
    /// the next request at any time.
    pub stop: CancellationToken,
    /// Connections close once they have no request.
    pub close: CancellationToken,
    /// What is still open is cut.
    pub deadline: CancellationToken,
}

impl Ends {
    /// All at once.
    pub fn at(end: &CancellationToken) -> Ends {
        Ends { stop: end.clone(), close: end.clone(), deadline: end.clone() }
    }
}

/// Serves the public listener to its end, as the lifecycle says; each request by the gate that there is when it comes.
pub async fn public(listener: TcpListener, gates: Arc<ArcSwap<Gate>>, lifecycle: Lifecycle) {
    let gate = gates.load_full();
    let bounds = Bounds {
        head: gate.rules.header_bytes,
        head_time: gate.rules.header_read,
        connections: most_connections(),
        neighbours: Neighbours::new(gate.rules.connections_per_address, gate.strangers.proxies().clone()),
    };
    let ends = Ends {
        stop: lifecycle.draining.clone(),
        close: lifecycle.quiet.clone(),
        deadline: lifecycle.over.clone(),
    };
    let answer = move |head: Request, body: Body, peer| {
        lifecycle.heard();
        super::http::serve(gates.load_full(), head, body, peer)
    };
    accept(listener, bounds, answer, ends).await;
}

/// Serves one listener by `answer`, which is told who asks.
pub async fn serve<F, A>(listener: TcpListener, bounds: Bounds, answer: F, ends: Ends)
where
    F: Fn(http::Request<Body>, SocketAddr) -> A + Clone + Send + Sync + 'static,
    A: Future<Output: Into<Given> + Send> + Send + 'static,
{
    accept(listener, bounds, move |head: Request, body, peer| answer(head.with(body), peer), ends).await;
}

/// As [`serve`], for who reads heads as they stand.
async fn accept<F, A>(listener: TcpListener, bounds: Bounds, answer: F, ends: Ends)
where
    F: Fn(Request, Body, SocketAddr) -> A + Clone + Send + Sync + 'static,
    A: Future<Output: Into<Given> + Send> + Send + 'static,
{
    let connections = TaskTracker::new();
    let room = Arc::new(Semaphore::new(bounds.connections));
    let begin = |socket: TcpStream, peer: SocketAddr, seat: OwnedSemaphorePermit| {
        let neighbour = match &bounds.neighbours {
            None => None,
            Some(neighbours) => match neighbours.enter(peer.ip()) {
                Some(neighbour) => Some(neighbour),
                // Closed at once: an answer would keep what it is to be refused.
                None => {
                    return metrics().limited.with_label_values(&["connections", "unauthenticated"]).inc();
                }
            },
        };
        // Small SSE events must leave at once (without this, some 40 ms each).
        let _ = socket.set_nodelay(true);
        let (answer, places) = (answer.clone(), (seat, neighbour));
        let answer = move |head, body| {
            // Given back with the connection.
            let _held = &places;
            answer(head, body, peer)
        };
        // Spawned as it is: a future that another one awaits takes its room twice, as what it is given does.
        connections.spawn(connection(
            socket,
            (bounds.head, bounds.head_time),
            Box::new(answer),
            ends.clone(),
        ));
    };
    loop {
        let accepted = async {
            let seat = room.clone().acquire_owned().await.expect("the semaphore is never closed");
            listener.accept().await.map(|(socket, peer)| (socket, peer, seat))
        };
        let socket = tokio::select! {
            biased;
            () = ends.stop.cancelled() => break,
            accepted = accepted => accepted,
        };
        match socket {
            Ok((socket, peer, seat)) => begin(socket, peer, seat),
            // Out of file descriptors, or a peer gone before we took it: the next one may do better.
            Err(error) => {
                tracing::warn!(%error, "accepting a connection failed");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    // Who connected before the end is served, though we had not come to take it yet; later ones find nobody.
    while let Ok(seat) = room.clone().try_acquire_owned()
        && let Some(Ok((socket, peer))) = listener.accept().now_or_never()
    {
        begin(socket, peer, seat);
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn connection<F, A>(socket: TcpStream, (head, head_time): (usize, Duration), answer: Box<F>, ends: Ends)
where
    F: Fn(Request, Body) -> A + Send + 'static,
    A: Future<Output: Into<Given> + Send> + Send + 'static,
{
    let heads = Heads::new(head_time);
    let closing = AtomicBool::new(false);
    let cut = pin!(async {
        let close = async {
            ends.close.cancelled().await;
            closing.store(true, Relaxed);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = ends.deadline.cancelled() => {}
            () = heads.overdue() => {}
            () = close => {}
        }
    });
    let mut cut = Aside::new(cut);
    let mut connection = Connection::new(socket, head, heads.clone());
    let mut served = pin!(connection.serve(&*answer, &closing));
    poll_fn(|context| {
        if Pin::new(&mut cut).poll(context).is_ready() {
            return Poll::Ready(());
        }
        match heads.looks() {
            true => ticks::ticking(context.waker(), || served.as_mut().poll(context)),
            false => served.as_mut().poll(context),
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Response;
    use http_body_util::BodyExt;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn a_connection_holds_little_between_requests_and_while_a_stream_stands() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let answer = async |_: Request, _: Body| Response::new(Body::empty());
        let ends = Ends::at(&CancellationToken::new());
        let size = size_of_val(&connection(socket, (8192, Duration::from_secs(60)), Box::new(answer), ends));
        assert!(size <= 1536, "{size} bytes");
    }

    #[tokio::test]
    async fn a_request_that_came_whole_is_polled_once_before_it_waits() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let over = CancellationToken::new();
        let bounds =
            Bounds { head: 8192, head_time: Duration::from_secs(60), connections: 1, neighbours: None };
        let (waits, mut waiting) = tokio::sync::mpsc::channel(1);
        let polls = Arc::new(AtomicUsize::new(0));
        let counted = polls.clone();
        let answer = move |request: http::Request<Body>, _| {
            let (waits, polls) = (waits.clone(), counted.clone());
            let mut work = Box::pin(async move {
                assert_eq!(request.into_body().collect().await.unwrap().to_bytes(), "body");
                let (end, ended) = tokio::sync::oneshot::channel::<()>();
                waits.send(end).await.unwrap();
                ended.await.unwrap();
                Response::new(Body::empty())
            });
            std::future::poll_fn(move |context| {
                polls.fetch_add(1, Ordering::SeqCst);
                work.as_mut().poll(context)
            })
        };
        let serving = tokio::spawn(serve(listener, bounds, answer, Ends::at(&over)));
        let mut socket = TcpStream::connect(address).await.unwrap();
        for request in 1..=3 {
            let text = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nbody";
            socket.write_all(text).await.unwrap();
            let end = waiting.recv().await.unwrap();
            // A poll in vain would come before this goes on.
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            end.send(()).unwrap();
            assert_eq!(socket.read(&mut [0; 512]).await.unwrap().min(12), 12);
            assert_eq!(polls.load(Ordering::SeqCst), 2 * request);
        }
        over.cancel();
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn a_deadline_is_kept_on_a_connection_however_busy_it_was() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let over = CancellationToken::new();
        let bounds =
            Bounds { head: 8192, head_time: Duration::from_secs(60), connections: 1, neighbours: None };
        let answer = async |request: http::Request<Body>, _| {
            if request.uri().path() == "/late" {
                let soon = tokio::time::Instant::now() + Duration::from_millis(100);
                assert!(crate::ticks::within(soon, std::future::pending::<()>()).await.is_none());
            }
            Response::new(Body::empty())
        };
        let serving = tokio::spawn(serve(listener, bounds, answer, Ends::at(&over)));
        let mut socket = TcpStream::connect(address).await.unwrap();
        for path in ["/"; 100].into_iter().chain(["/late", "/late"]) {
            let text = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
            socket.write_all(text.as_bytes()).await.unwrap();
            let mut head = [0; 512];
            let read = tokio::time::timeout(Duration::from_secs(20), socket.read(&mut head));
            assert_ne!(read.await.expect("it is answered").unwrap(), 0);
            assert!(head.starts_with(b"HTTP/1.1 200"));
        }
        over.cancel();
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn a_connection_too_many_waits_for_another_to_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let over = CancellationToken::new();
        let bounds =
            Bounds { head: 8192, head_time: Duration::from_secs(60), connections: 1, neighbours: None };
        let answer = async |_, _| Response::new(Body::empty());
        let serving = tokio::spawn(serve(listener, bounds, answer, Ends::at(&over)));
        let ask = async |socket: &mut TcpStream| {
            socket.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
            socket.read(&mut [0; 12]).await.unwrap()
        };
        let mut first = TcpStream::connect(address).await.unwrap();
        assert_eq!(ask(&mut first).await, 12);
        let mut second = TcpStream::connect(address).await.unwrap();
        let mut waits = std::pin::pin!(ask(&mut second));
        assert!(tokio::time::timeout(Duration::from_millis(50), &mut waits).await.is_err());
        drop(first);
        assert_eq!(waits.await, 12);
        over.cancel();
        serving.await.unwrap();
    }
}
