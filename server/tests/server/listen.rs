//! Tests of slow, silent and vanished clients on real connections.

use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use diode_server::listen::{Patience, listen};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const BRISK: Patience = Patience {
    connections: 4,
    silent: 4,
    from_one: 4,
    head: Duration::from_millis(300),
    answer: Duration::from_millis(300),
    stop: Duration::from_millis(300),
};

/// Longer than any time limit here, but short enough for people who wait.
const SOON: Duration = Duration::from_secs(20);

struct Server {
    address: std::net::SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Server {
    async fn start() -> Self {
        Self::with(BRISK).await
    }

    async fn with(patience: Patience) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let large = || async { vec![0_u8; 64 << 20] };
        let endless = || std::future::pending::<String>();
        let router = Router::new()
            .route("/", get(|| async { "here" }))
            .route("/large", get(large))
            .route("/endless", get(endless));
        let serving = tokio::spawn(listen(listener, router, patience, None, async move {
            let _ = stopped.await;
        }));
        Self { address, stop, serving }
    }

    async fn send(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    async fn ask(&self) -> String {
        let mut stream = self.send("GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
        let mut answer = String::new();
        // The server may close the connection at once.
        let _ = stream.read_to_string(&mut answer).await;
        answer
    }
}

/// Waits until the other end closes.
async fn closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    // A reset counts as closing, too.
    let _ = timeout(SOON, stream.read_to_end(&mut rest)).await.expect("the connection stayed open");
}

#[tokio::test]
async fn unfinished_heads_and_silence_end() {
    let server = Server::start().await;
    for text in ["", "GET / HTTP/1.1\r\nhost: local", "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"] {
        closed(&mut server.send(text).await).await;
    }
}

#[tokio::test]
async fn malformed_heads_are_refused_and_others_go_on() {
    let server = Server::start().await;
    let many: String = (0..500).map(|number| format!("x-{number}: y\r\n")).collect();
    let head = |rest: &str| format!("GET / HTTP/1.1\r\nhost: localhost\r\n{rest}\r\n");
    for (text, expected) in [
        (head(&format!("x: {}\r\n", "y".repeat(1 << 20))), "431"),
        (head(&many), "431"),
        (format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "y".repeat(70_000)), "414"),
        (head("no colon\r\n"), "400"),
        (head("x\u{0}y: z\r\n"), "400"),
        (head("content-length: 1\r\ncontent-length: 2\r\n"), "400"),
        (head("content-length: many\r\n"), "400"),
        ("GET / HTTP/9.9\r\n\r\n".to_owned(), "400"),
        ("GET \u{7} HTTP/1.1\r\n\r\n".to_owned(), "400"),
        ("\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}".to_owned() + &"x".repeat(600), "400"),
    ] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        // The server may refuse the request before it has received all of it.
        let _ = stream.write_all(text.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = timeout(SOON, stream.read_to_end(&mut answer)).await.unwrap();
        let answer = String::from_utf8_lossy(&answer);
        let status = answer.split(' ').nth(1).unwrap_or_default();
        // If the client is still sending, the answer may be lost with the connection.
        assert!(status == expected || (answer.is_empty() && text.len() > 60_000), "{text:.60}: {answer}");
        assert!(server.ask().await.ends_with("here"));
    }
}

#[tokio::test]
async fn silent_connections_give_way_to_others() {
    let server = Server::start().await;
    let mut silent = Vec::new();
    for _ in 0..3 * BRISK.connections {
        silent.push(server.send("GET / HT").await);
    }
    let answer = timeout(SOON, server.ask()).await.expect("no answer beside silent connections");
    assert!(answer.ends_with("here"), "{answer}");
}

#[tokio::test]
async fn an_idle_connection_gives_way_at_once() {
    // Nothing times out here: the answer comes because an idle connection is closed.
    let server = Server::with(Patience { head: Duration::from_secs(600), ..BRISK }).await;
    let mut waiting = Vec::new();
    for text in
        ["", "GET / HT", "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"].iter().cycle().take(BRISK.connections)
    {
        waiting.push(server.send(text).await);
    }
    for _ in 0..20 {
        let answer = timeout(SOON, server.ask()).await.expect("no answer beside idle connections");
        assert!(answer.ends_with("here"), "{answer}");
    }
}

#[tokio::test]
async fn a_request_at_work_gives_way_to_nobody() {
    let server = Server::with(Patience { connections: 2, head: Duration::from_secs(600), ..BRISK }).await;
    let mut at_work = server.send("GET /endless HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let _idle = server.send("GET / HT").await;
    for _ in 0..5 {
        assert!(server.ask().await.ends_with("here"));
    }
    let mut byte = [0];
    let ended = timeout(Duration::from_millis(200), at_work.read(&mut byte)).await;
    assert!(ended.is_err(), "the request was cut off");
}

#[tokio::test]
async fn who_has_sent_nothing_takes_no_place() {
    let server = Server::with(Patience { connections: 2, head: SOON, ..BRISK }).await;
    let mut begun = server.send("GET / HT").await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut silent = Vec::new();
    for _ in 0..3 * BRISK.silent {
        silent.push(server.send("").await);
    }
    closed(&mut silent[0]).await;
    let rest = "TP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let newest = silent.last_mut().unwrap();
    for (stream, text) in [(newest, format!("GET / HT{rest}")), (&mut begun, rest.to_owned())] {
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(SOON, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        assert!(answer.ends_with("here"), "{answer}");
    }
}

#[tokio::test]
async fn one_address_does_not_take_all_connections() {
    let server = Server::with(Patience { from_one: 2, head: SOON, ..BRISK }).await;
    let first = server.send("GET / HT").await;
    let _second = server.send("GET / HT").await;
    closed(&mut server.send("GET / HT").await).await;
    drop(first);
    let start = Instant::now();
    while !server.ask().await.ends_with("here") {
        assert!(start.elapsed() < SOON, "its place is not free again");
    }
}

#[tokio::test]
async fn who_takes_nothing_of_an_answer_is_cut_off() {
    let server = Server::start().await;
    let mut lazy = Vec::new();
    for _ in 0..BRISK.connections {
        lazy.push(server.send("GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n").await);
    }
    let answer = timeout(SOON, server.ask()).await.expect("no answer beside lazy readers");
    assert!(answer.ends_with("here"), "{answer}");
}

#[tokio::test]
async fn a_stop_waits_for_nobody_for_ever() {
    let server = Server::start().await;
    let _half_open = server.send("GET / HTTP/1.1\r\nhost: local").await;
    let mut running = server.send("GET /endless HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let start = Instant::now();
    server.stop.send(()).unwrap();
    timeout(SOON, server.serving).await.expect("the server did not stop").unwrap();
    assert!(start.elapsed() >= BRISK.stop, "a running request gets some time");
    closed(&mut running).await;
}
