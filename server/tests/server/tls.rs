//! Tests of TLS without a proxy, on real connections.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use diode_server::listen::{Patience, listen};
use diode_server::tls::{Tls, TlsFiles};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

const BRISK: Patience = Patience {
    connections: 4,
    silent: 4,
    from_one: 4,
    head: Duration::from_millis(500),
    answer: Duration::from_millis(500),
    stop: Duration::from_millis(500),
};

/// Longer than any time limit here, but short enough for people who wait.
const SOON: Duration = Duration::from_secs(20);

/// Makes a certificate for this machine, and writes it with its key.
pub(crate) fn certify(folder: &Path) -> (TlsFiles, String) {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let files = TlsFiles { certificate: folder.join("cert.pem"), key: folder.join("key.pem") };
    let certificate = made.cert.pem();
    diode_formats::write_atomically(&files.certificate, certificate.as_bytes()).unwrap();
    diode_formats::write_atomically(&files.key, made.signing_key.serialize_pem().as_bytes()).unwrap();
    (files, certificate)
}

/// The answer that a client gets if it trusts only one certificate.
fn ask(url: &str, trusted: &str) -> Result<String, ureq::Error> {
    let trusted = Certificate::from_pem(trusted.as_bytes()).unwrap();
    let tls = TlsConfig::builder().root_certs(RootCerts::new_with_certs(&[trusted])).build();
    let config = ureq::Agent::config_builder().tls_config(tls).timeout_global(Some(SOON)).build();
    ureq::Agent::new_with_config(config).get(url).call()?.body_mut().read_to_string()
}

struct Server {
    address: SocketAddr,
    certificate: String,
    tls: Tls,
    folder: TempDir,
}

impl Server {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (files, certificate) = certify(folder.path());
        let tls = Tls::open(files).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(|| async { "here" }));
        tokio::spawn(listen(listener, router, BRISK, Some(tls.clone()), std::future::pending()));
        Self { address, certificate, tls, folder }
    }

    async fn ask(&self, trusted: &str) -> Result<String, ureq::Error> {
        let (url, trusted) = (format!("https://{}/", self.address), trusted.to_owned());
        tokio::task::spawn_blocking(move || ask(&url, &trusted)).await.unwrap()
    }
}

#[tokio::test]
async fn who_trusts_the_certificate_is_answered() {
    let server = Server::start().await;
    assert_eq!(server.ask(&server.certificate).await.unwrap(), "here");
    let (_, other) = certify(tempfile::tempdir().unwrap().path());
    assert!(matches!(server.ask(&other).await, Err(ureq::Error::Rustls(_) | ureq::Error::Io(_))));
    // A connection without TLS gets no answer.
    let mut plain = TcpStream::connect(server.address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = timeout(SOON, plain.read_to_end(&mut answer)).await.expect("the connection stayed open");
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP"), "{answer:?}");
}

#[tokio::test]
async fn slow_handshakes_give_way_to_others() {
    let server = Server::start().await;
    let mut slow = Vec::new();
    for begun in [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"] {
        for _ in 0..BRISK.connections {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            stream.write_all(begun).await.unwrap();
            slow.push(stream);
        }
    }
    let start = Instant::now();
    assert_eq!(server.ask(&server.certificate).await.unwrap(), "here");
    assert!(start.elapsed() < SOON);
    for stream in &mut slow {
        let mut rest = Vec::new();
        let _ = timeout(SOON, stream.read_to_end(&mut rest)).await.expect("the connection stayed open");
    }
}

#[tokio::test]
async fn a_certificate_is_renewed_while_the_server_runs() {
    let server = Server::start().await;
    let before = server.certificate.clone();
    // With a key that does not belong to the certificate, or with a missing key, the old certificate stays.
    let elsewhere = tempfile::tempdir().unwrap();
    let (other, _) = certify(elsewhere.path());
    let key = server.folder.path().join("key.pem");
    std::fs::copy(&other.key, &key).unwrap();
    assert!(server.tls.reload().is_err());
    std::fs::remove_file(&key).unwrap();
    let error = format!("{:#}", server.tls.reload().unwrap_err());
    assert!(error.contains("tls_key") && error.contains("key.pem"), "{error}");
    assert_eq!(server.ask(&before).await.unwrap(), "here");
    let (_, after) = certify(server.folder.path());
    server.tls.reload().unwrap();
    assert_eq!(server.ask(&after).await.unwrap(), "here");
    assert!(server.ask(&before).await.is_err());
}

/// A process that ends with the test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_program_takes_a_certificate_and_reads_it_anew_on_sighup() {
    let folder = tempfile::tempdir().unwrap();
    let (files, before) = certify(folder.path());
    let mut process = Command::new(env!("CARGO_BIN_EXE_diode-server"))
        .args(["serve", "--listen", "127.0.0.1:0", "--no-worker", "--database-url", "sqlite:diode.db"])
        .args(["--blobs", "blobs", "--tls-certificate", "cert.pem", "--tls-key", "key.pem"])
        .current_dir(folder.path())
        .env_remove("DATABASE_URL")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = process.stdout.take().unwrap();
    let process = Program(process);
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let url = format!("{}/healthz", line.trim().strip_prefix("listening on ").unwrap());
    assert!(url.starts_with("https://"), "{url}");
    ask(&url, &before).unwrap();
    let (_, after) = certify(folder.path());
    let told = Command::new("kill").args(["-HUP", &process.0.id().to_string()]).status().unwrap();
    assert!(told.success());
    let start = Instant::now();
    while let Err(error) = ask(&url, &after) {
        assert!(start.elapsed() < SOON, "{error}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(files.key.exists());
}
