//! A mail server for tests. It accepts mails and shows them, or misbehaves.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use diode_server::tls::TlsFiles;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// How the mail server treats clients.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    Takes,
    /// Refuses the recipient for good.
    Refuses,
    /// Accepts no mail the first two times.
    IsBusyTwice,
    /// Never answers.
    Hangs,
    /// Uses TLS from the first byte, or after the client has asked for it.
    Tls,
    StartTls,
}

#[derive(Clone)]
pub(super) struct StandIn {
    pub(super) port: u16,
    connections: Arc<AtomicUsize>,
    said: Arc<Mutex<Vec<String>>>,
    mails: Arc<Mutex<Vec<String>>>,
    tls: Option<TlsAcceptor>,
}

impl StandIn {
    pub(super) async fn start(manner: Manner) -> Self {
        Self::start_with(manner, None).await
    }

    /// Starts with a certificate.
    pub(super) async fn start_with(manner: Manner, certificate: Option<&TlsFiles>) -> Self {
        Self::start_on(TcpListener::bind("127.0.0.1:0").await.unwrap(), manner, certificate)
    }

    /// Starts on a port where nobody has answered so far.
    pub(super) fn start_on(listener: TcpListener, manner: Manner, certificate: Option<&TlsFiles>) -> Self {
        let tls = certificate.map(acceptor);
        let port = listener.local_addr().unwrap().port();
        let (connections, said, mails) = (Arc::default(), Arc::default(), Arc::default());
        let server = Self { port, connections, said, mails, tls };
        let answering = server.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let server = answering.clone();
                tokio::spawn(async move {
                    let nth = server.connections.fetch_add(1, Ordering::SeqCst);
                    // The conversation also ends when the client goes away.
                    let _ = server.receive(stream, manner, nth).await;
                });
            }
        });
        server
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(super) fn mails(&self) -> Vec<String> {
        self.mails.lock().unwrap().clone()
    }

    /// All lines that clients have sent, except for the mails themselves.
    pub(super) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    async fn receive(&self, stream: TcpStream, manner: Manner, nth: usize) -> std::io::Result<()> {
        let encrypt = async |stream| self.tls.as_ref().unwrap().accept(stream).await;
        if manner == Manner::Tls {
            return self
                .converse(&mut BufReader::new(encrypt(stream).await?), manner, nth, true)
                .await
                .map(drop);
        }
        let mut stream = BufReader::new(stream);
        if self.converse(&mut stream, manner, nth, true).await? == Ended::ForTls {
            let mut stream = BufReader::new(encrypt(stream.into_inner()).await?);
            self.converse(&mut stream, Manner::Takes, nth, false).await?;
        }
        Ok(())
    }

    async fn converse(
        &self,
        stream: &mut BufReader<impl AsyncRead + AsyncWrite + Unpin>,
        manner: Manner,
        nth: usize,
        greets: bool,
    ) -> std::io::Result<Ended> {
        if manner == Manner::Hangs {
            // Waits until the client goes away.
            stream.read_line(&mut String::new()).await?;
            return Ok(Ended::ForGood);
        }
        if greets {
            say(stream, "220 stand-in\r\n").await?;
        }
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(Ended::ForGood);
            }
            let line = line.trim_end().to_owned();
            let verb = line.split([' ', ':']).next().unwrap_or_default().to_ascii_uppercase();
            self.said.lock().unwrap().push(line);
            let answer = match verb.as_str() {
                "EHLO" if manner == Manner::StartTls => "250-stand-in\r\n250 STARTTLS\r\n",
                "STARTTLS" => {
                    say(stream, "220 go on\r\n").await?;
                    return Ok(Ended::ForTls);
                }
                "EHLO" => "250-stand-in\r\n250 AUTH PLAIN\r\n",
                "AUTH" => "235 2.7.0 welcome\r\n",
                "RCPT" if manner == Manner::Refuses => "550 5.1.1 no such mailbox\r\n",
                "MAIL" if manner == Manner::IsBusyTwice && nth < 2 => "451 4.3.0 come back later\r\n",
                "DATA" => {
                    say(stream, "354 go on\r\n").await?;
                    let mail = read_mail(stream).await?;
                    self.mails.lock().unwrap().push(mail);
                    "250 2.0.0 taken\r\n"
                }
                "QUIT" => {
                    say(stream, "221 bye\r\n").await?;
                    return Ok(Ended::ForGood);
                }
                _ => "250 2.0.0 well\r\n",
            };
            say(stream, answer).await?;
        }
    }
}

/// Why a conversation is over.
#[derive(PartialEq, Eq)]
enum Ended {
    ForGood,
    /// The conversation continues over TLS.
    ForTls,
}

fn acceptor(files: &TlsFiles) -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_file(&files.certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(&files.key).unwrap();
    let config = ServerConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key);
    TlsAcceptor::from(Arc::new(config.unwrap()))
}

async fn say(stream: &mut (impl AsyncWrite + Unpin), text: &str) -> std::io::Result<()> {
    stream.write_all(text.as_bytes()).await?;
    stream.flush().await
}

async fn read_mail(stream: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<String> {
    let mut mail = String::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 || line == ".\r\n" {
            return Ok(mail);
        }
        mail += line.strip_prefix('.').unwrap_or(&line);
    }
}
