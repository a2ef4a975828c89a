//! Accepts connections. Slow, silent and vanished clients cannot block the server.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ConnectInfo;
use axum::http::Request;
use axum::response::Response;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;
use tower::ServiceExt as _;

use crate::tls::Tls;

/// The limits for clients.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// The most connections that have sent something. Beyond them an idle one gives way to each new one.
    pub connections: usize,
    /// The most other connections, which have sent nothing yet and cost little more than a file each. Beyond them the
    /// oldest is closed.
    pub silent: usize,
    /// The most connections from one address. Further connections are closed at once.
    pub from_one: usize,
    /// How long the handshake of TLS, the head of a request, and the pause between two requests may take.
    pub head: Duration,
    /// How long a client may pause while it reads an answer.
    pub answer: Duration,
    /// How long requests may still run once the server must stop.
    pub stop: Duration,
}

impl Patience {
    /// The limits for a listener that few programs use.
    pub const FEW: Self = Self {
        connections: 16,
        silent: 16,
        from_one: 16,
        head: Duration::from_secs(10),
        answer: Duration::from_secs(10),
        stop: Duration::from_secs(1),
    };
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connections: 512,
            silent: 4096,
            from_one: 512,
            head: Duration::from_secs(10),
            answer: Duration::from_secs(30),
            stop: Duration::from_secs(20),
        }
    }
}

/// Serves until `stop` resolves. Then lets running requests end, and after a while closes all connections that
/// are left. With `tls`, a connection without TLS is refused.
pub async fn listen(
    listener: TcpListener,
    router: Router,
    patience: Patience,
    tls: Option<Tls>,
    stop: impl Future<Output = ()>,
) {
    let room = Arc::new(Semaphore::new(patience.connections + patience.silent));
    let places = Arc::new(Semaphore::new(patience.connections));
    // Only the first of those that wait for a place looks for an idle connection.
    let turns = Arc::new(tokio::sync::Mutex::new(()));
    let (open, graceful) = (Connections::default(), GracefulShutdown::new());
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(patience.head);
    // All connections that are still open are closed when this function ends, because the set is dropped.
    let mut tasks = JoinSet::new();
    tokio::pin!(stop);
    loop {
        let (stream, peer, entry) = tokio::select! {
            accepted = accept(&listener, &room, &open) => accepted,
            () = &mut stop => break,
        };
        let counted = open.count(peer.ip());
        let (id, close, at_start, at_end) =
            (counted.id, Arc::clone(&counted.close), open.clone(), open.clone());
        let service = router
            .clone()
            .map_request(move |mut request: Request<Incoming>| {
                at_start.set_idle(id, None);
                request.extensions_mut().insert(ConnectInfo(peer));
                request
            })
            .map_response(move |answer: Response| {
                answer.map(|body| Body::new(Answer { body, connections: at_end.clone(), id }))
            });
        let service = TowerToHyperService::new(service);
        let (http, watcher) = (http.clone(), graceful.watcher());
        let acceptor = tls.as_ref().map(Tls::acceptor);
        let (open, places, turns) = (open.clone(), Arc::clone(&places), Arc::clone(&turns));
        tasks.spawn(async move {
            // The handshake runs in the task of its connection, so that a slow handshake delays no other
            // connection.
            let talking = async {
                // To wait until it is readable would not do: that may end though nothing has arrived.
                if !matches!(timeout(patience.head, stream.peek(&mut [0])).await, Ok(Ok(1))) {
                    return tracing::debug!("a connection has sent nothing");
                }
                let turn = turns.lock().await;
                let _place = place(&places, || open.close_an_idle_one(true)).await;
                drop(turn);
                if !open.begin(id, patience.from_one) {
                    return tracing::debug!("{} has as many connections as it may", peer.ip());
                }
                let mut stream = TimeoutStream::new(stream);
                stream.set_write_timeout(Some(patience.answer));
                let stream = Box::pin(stream);
                match acceptor {
                    None => talk(&http, stream, service, watcher).await,
                    Some(acceptor) => match timeout(patience.head, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => talk(&http, stream, service, watcher).await,
                        Ok(Err(error)) => tracing::debug!("a handshake failed: {error}"),
                        Err(_) => tracing::debug!("a handshake took too long"),
                    },
                }
            };
            // In memory of its own, which a silent connection does not have yet.
            tokio::select! {
                () = Box::pin(talking) => {}
                () = close.notified() => tracing::debug!("an idle connection gave way to another one"),
            }
            drop((entry, counted));
        });
        while tasks.try_join_next().is_some() {}
    }
    drop(listener);
    open.close_silent_ones();
    if timeout(patience.stop, graceful.shutdown()).await.is_err() {
        tracing::warn!("closing {} connections whose requests have not ended", tasks.len());
    }
}

/// The open connections.
#[derive(Clone, Default)]
struct Connections(Arc<Mutex<Open>>);

#[derive(Default)]
struct Open {
    next: u64,
    connections: HashMap<u64, Connection>,
}

struct Connection {
    block: IpAddr,
    /// Whether the client has sent something, and the connection has a place.
    has_begun: bool,
    /// Since when the client has sent no whole head of a request; `None` while a request is answered.
    idle: Option<Instant>,
    close: Arc<Notify>,
}

impl Connections {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more connection, as long as the returned value lives.
    fn count(&self, address: IpAddr) -> Counted {
        let mut open = self.open();
        let (id, close) = (open.next, Arc::new(Notify::new()));
        open.next += 1;
        let (block, idle, close_it) = (block(address), Some(Instant::now()), Arc::clone(&close));
        open.connections.insert(id, Connection { block, has_begun: false, idle, close: close_it });
        Counted { connections: self.clone(), id, close }
    }

    /// Notes that a client has sent something. `false` if its address has too many connections that have.
    fn begin(&self, id: u64, most: usize) -> bool {
        let mut open = self.open();
        let Some(block) = open.connections.get(&id).map(|connection| connection.block) else { return false };
        if open.begun().filter(|connection| connection.block == block).count() >= most {
            return false;
        }
        if let Some(connection) = open.connections.get_mut(&id) {
            (connection.has_begun, connection.idle) = (true, Some(Instant::now()));
        }
        true
    }

    /// Closes an idle connection, so that another one finds a place: of the address with the most connections
    /// the one that has been idle for longest. Chooses among those that have sent something, or among the others.
    fn close_an_idle_one(&self, has_begun: bool) {
        let mut open = self.open();
        let mut counts = HashMap::<IpAddr, usize>::new();
        let alike = open.connections.iter().filter(|(_, connection)| connection.has_begun == has_begun);
        for (_, connection) in alike.clone() {
            *counts.entry(connection.block).or_default() += 1;
        }
        let idle = alike
            .filter_map(|(&id, connection)| Some((counts[&connection.block], Reverse(connection.idle?), id)));
        if let Some((.., id)) = idle.max()
            && let Some(connection) = open.connections.get_mut(&id)
        {
            // It is chosen once only, and no longer counts.
            (connection.has_begun, connection.idle) = (false, None);
            connection.close.notify_one();
        }
    }

    fn close_silent_ones(&self) {
        for connection in self.open().connections.values().filter(|connection| !connection.has_begun) {
            connection.close.notify_one();
        }
    }

    fn set_idle(&self, id: u64, idle: Option<Instant>) {
        if let Some(connection) = self.open().connections.get_mut(&id) {
            connection.idle = idle;
        }
    }
}

impl Open {
    fn begun(&self) -> impl Iterator<Item = &Connection> {
        self.connections.values().filter(|connection| connection.has_begun)
    }
}

/// The addresses that one client usually has: a single one of IPv4, 2^64 of IPv6.
fn block(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address @ IpAddr::V4(_) => address,
    }
}

struct Counted {
    connections: Connections,
    id: u64,
    close: Arc<Notify>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.connections.open().connections.remove(&self.id);
    }
}

/// The body of an answer. When it has been sent or given up, its connection is idle.
struct Answer {
    body: Body,
    connections: Connections,
    id: u64,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.connections.set_idle(self.id, Some(Instant::now()));
    }
}
/// Answers the requests of one connection.
async fn talk<I, S>(http: &http1::Builder, stream: I, service: S, watcher: Watcher)
where
    I: AsyncRead + AsyncWrite + Unpin + 'static,
    S: Service<Request<Incoming>, Response = Response, Error = Infallible>,
{
    let connection = http.serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!("a connection ended early: {error}");
    }
}

/// The next connection. If there are as many as are allowed, a silent one gives way. If there is none, waits until a
/// connection ends.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
    open: &Connections,
) -> (TcpStream, SocketAddr, Option<OwnedSemaphorePermit>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Without this, the end of an answer may wait until the client acknowledges the data before
                // it.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!("a connection may be slower: {error}");
                }
                return (stream, peer, place(room, || open.close_an_idle_one(false)).await);
            }
            // The client may have gone, or the process may have too many files open. Both may pass.
            Err(error) => {
                tracing::warn!("a connection could not be accepted: {error}");
                open.close_an_idle_one(false);
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// One of a limited number of places, for which `make_room` closes a connection. The semaphore is never closed, so there
/// is one at last.
async fn place(limit: &Arc<Semaphore>, make_room: impl Fn()) -> Option<OwnedSemaphorePermit> {
    if let Ok(permit) = Arc::clone(limit).try_acquire_owned() {
        return Some(permit);
    }
    loop {
        make_room();
        if let Ok(permit) = timeout(Duration::from_millis(50), Arc::clone(limit).acquire_owned()).await {
            return permit.ok();
        }
    }
}
