//! Accepts connections. Slow, silent and vanished clients cannot block the server.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;
use tower::ServiceExt as _;

use crate::tls::Tls;

/// The limits for clients.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// The most open connections. Further connections wait until one is closed. A process may usually have
    /// 1,024 files open, of which the database takes some.
    pub connections: usize,
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
    let limit = Arc::new(Semaphore::new(patience.connections));
    let (peers, graceful) = (Peers::default(), GracefulShutdown::new());
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(patience.head);
    // All connections that are still open are closed when this function ends, because the set is dropped.
    let mut connections = JoinSet::new();
    tokio::pin!(stop);
    loop {
        let (stream, peer, permit) = tokio::select! {
            accepted = accept(&listener, &limit) => accepted,
            () = &mut stop => break,
        };
        let Some(counted) = peers.count(peer.ip(), patience.from_one) else {
            tracing::debug!("{} has as many connections as it may", peer.ip());
            continue;
        };
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(patience.answer));
        let service = router.clone().map_request(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(peer));
            request
        });
        let service = TowerToHyperService::new(service);
        let (http, watcher) = (http.clone(), graceful.watcher());
        let acceptor = tls.as_ref().map(Tls::acceptor);
        connections.spawn(async move {
            let stream = Box::pin(stream);
            // The handshake runs in the task of its connection, so that a slow handshake delays no other
            // connection.
            match acceptor {
                None => talk(&http, stream, service, watcher).await,
                Some(acceptor) => match timeout(patience.head, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => talk(&http, stream, service, watcher).await,
                    Ok(Err(error)) => tracing::debug!("a handshake failed: {error}"),
                    Err(_) => tracing::debug!("a handshake took too long"),
                },
            }
            drop((permit, counted));
        });
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    if timeout(patience.stop, graceful.shutdown()).await.is_err() {
        tracing::warn!("closing {} connections whose requests have not ended", connections.len());
    }
}

/// How many connections each address has.
#[derive(Clone, Default)]
struct Peers(Arc<Mutex<HashMap<IpAddr, usize>>>);

impl Peers {
    /// Counts one more connection of an address, as long as the returned value lives. `None` if the address
    /// has too many.
    fn count(&self, address: IpAddr, most: usize) -> Option<Counted> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_address = open.entry(address).or_default();
        if *of_address >= most {
            return None;
        }
        *of_address += 1;
        Some(Counted { peers: self.clone(), address })
    }
}

struct Counted {
    peers: Peers,
    address: IpAddr,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut open = self.peers.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_address) = open.get_mut(&self.address) {
            *of_address -= 1;
            if *of_address == 0 {
                open.remove(&self.address);
            }
        }
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

/// The next connection. Waits until one more connection is allowed.
async fn accept(
    listener: &TcpListener,
    limit: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, Option<OwnedSemaphorePermit>) {
    // The semaphore is never closed, so this always gets a permit at last.
    let permit = Arc::clone(limit).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Without this, the end of an answer may wait until the client acknowledges the data before
                // it.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!("a connection may be slower: {error}");
                }
                return (stream, peer, permit);
            }
            // The client may have gone, or the process may have too many files open. Both may pass.
            Err(error) => {
                tracing::warn!("a connection could not be accepted: {error}");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}
