//! S3-compatible storage that runs in the test. The library s3s speaks the protocol and checks signatures;
//! s3s-fs keeps the files in a folder.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use axum::http::{Method, StatusCode};
use diode_server::blobs::{Bucket, Keys};
use diode_server::settings::{Data, S3};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{S3Error, S3ErrorCode, S3Result, s3_error};
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

const BUCKET: &str = "timings";
pub(crate) const KEY: &str = "the-key-of-the-tests";
pub(crate) const SECRET: &str = "the-secret-of-the-tests";

/// How the storage treats requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    Well,
    /// It accepts requests and never answers.
    Silent,
    /// The quota is used up.
    Full,
    /// The disk is full.
    DiskFull,
    /// The bucket was deleted.
    NoBucket,
    /// It accepts only the first part of a large file.
    OnePart,
    /// It accepts the first part, and never answers to the others.
    OnePartThenSilent,
}

pub(crate) struct Storage {
    folder: TempDir,
    address: SocketAddr,
    mood: watch::Sender<Mood>,
    serving: JoinHandle<()>,
    /// How often a probe was stored.
    probes: Arc<AtomicUsize>,
    /// How many parts of large files it has received without answering.
    unanswered_parts: Arc<AtomicUsize>,
    /// The storage's certificate, if it uses TLS.
    certificate: Option<PathBuf>,
}

impl Storage {
    /// Storage with an empty bucket.
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(BUCKET)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mood, feels) = watch::channel(Mood::Well);
        let (probes, unanswered_parts) = (Arc::default(), Arc::default());
        let gate = Gate {
            mood: feels,
            probes: Arc::clone(&probes),
            unanswered_parts: Arc::clone(&unanswered_parts),
        };
        let serving = tokio::spawn(serve(listener, None, service(folder.path().into(), gate)));
        Self { folder, address, mood, serving, probes, unanswered_parts, certificate: None }
    }

    /// Storage with an empty bucket, TLS and a self-signed certificate.
    pub(crate) async fn start_with_tls() -> Self {
        let mut storage = Self::start().await;
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let file = storage.folder.path().join("certificate.pem");
        diode_formats::write_atomically(&file, made.cert.pem().as_bytes()).unwrap();
        let ring = rustls::crypto::ring::default_provider();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let tls = ServerConfig::builder_with_provider(ring.into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        storage.stop().await;
        let listener = TcpListener::bind(storage.address).await.unwrap();
        let service = service(storage.folder.path().into(), storage.gate());
        storage.serving = tokio::spawn(serve(listener, Some(TlsAcceptor::from(Arc::new(tls))), service));
        storage.certificate = Some(file);
        storage
    }

    /// The storage's bucket, for a server whose files have names that begin with `prefix`.
    pub(crate) fn bucket(&self, prefix: &str) -> Bucket {
        Bucket {
            name: BUCKET.to_owned(),
            prefix: prefix.to_owned(),
            endpoint: Some(self.endpoint()),
            region: "us-east-1".to_owned(),
            path_style: true,
            ca: self.certificate.clone(),
            allow_http: false,
            keys: Keys::new(KEY, SECRET),
        }
    }

    /// Settings by which files are kept in this storage, under names that begin with `prefix`.
    pub(crate) fn under(&self, prefix: &str, data: Data) -> Data {
        let Bucket { endpoint, ca, keys, .. } = self.bucket(prefix);
        let s3 = S3 { endpoint, ca, ..data.s3 };
        Data { blobs: format!("s3://{BUCKET}/{prefix}").into(), s3, keys, ..data }
    }

    /// The variables by which a process reaches the same bucket.
    pub(crate) fn variables(&self) -> [(&'static str, String); 4] {
        [
            ("DIODE_BLOBS", format!("s3://{BUCKET}/diode")),
            ("AWS_ENDPOINT_URL", self.endpoint()),
            ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
        ]
    }

    fn endpoint(&self) -> String {
        match self.certificate {
            None => format!("http://{}", self.address),
            Some(_) => format!("https://localhost:{}", self.address.port()),
        }
    }

    /// The folder with the files of [`Self::bucket`].
    pub(crate) fn files(&self, prefix: &str) -> PathBuf {
        self.folder.path().join(BUCKET).join(prefix)
    }

    /// How many parts of large files exist whose upload was neither finished nor given up.
    pub(crate) fn parts(&self) -> usize {
        let files = std::fs::read_dir(self.folder.path()).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(".upload")).count()
    }

    /// How many parts of large files it has received without answering.
    pub(crate) fn unanswered_parts(&self) -> usize {
        self.unanswered_parts.load(Ordering::SeqCst)
    }

    /// How often a probe was stored.
    pub(crate) fn probes(&self) -> usize {
        self.probes.load(Ordering::SeqCst)
    }

    fn gate(&self) -> Gate {
        Gate {
            mood: self.mood.subscribe(),
            probes: Arc::clone(&self.probes),
            unanswered_parts: Arc::clone(&self.unanswered_parts),
        }
    }

    pub(crate) fn set(&self, mood: Mood) {
        self.mood.send_replace(mood);
    }

    /// Stops listening, and breaks all connections.
    pub(crate) async fn stop(&mut self) {
        self.serving.abort();
        // The error only says that the task was aborted.
        let _ = (&mut self.serving).await;
    }

    /// Starts again with the same files.
    pub(crate) async fn start_again(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        let service = service(self.folder.path().into(), self.gate());
        self.serving = tokio::spawn(serve(listener, None, service));
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn service(folder: PathBuf, gate: Gate) -> S3Service {
    let mut builder = S3ServiceBuilder::new(FileSystem::new(folder).unwrap());
    builder.set_auth(SimpleAuth::from_single(KEY, SECRET));
    builder.set_access(gate);
    builder.build()
}

async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, service: S3Service) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        connections.spawn(answer(stream, tls.clone(), service.clone()));
        while connections.try_join_next().is_some() {}
    }
}

/// Answers on one connection. The other end may break it off at any time.
async fn answer(stream: TcpStream, tls: Option<TlsAcceptor>, service: S3Service) {
    let http = http1::Builder::new();
    let _ = match tls {
        None => http.serve_connection(TokioIo::new(stream), service).await,
        Some(tls) => match tls.accept(stream).await {
            Ok(stream) => http.serve_connection(TokioIo::new(stream), service).await,
            Err(_) => return,
        },
    };
}

/// The check before each request.
struct Gate {
    mood: watch::Receiver<Mood>,
    probes: Arc<AtomicUsize>,
    unanswered_parts: Arc<AtomicUsize>,
}

#[async_trait]
impl S3Access for Gate {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        let mood = *self.mood.borrow();
        if context.method() == Method::PUT && context.uri().path().ends_with("/probe") {
            self.probes.fetch_add(1, Ordering::SeqCst);
        }
        let is_later_part = context.uri().query().is_some_and(|query| {
            query.split('&').any(|pair| pair.starts_with("partNumber=") && pair != "partNumber=1")
        });
        match mood {
            _ if context.credentials().is_none() => Err(s3_error!(AccessDenied)),
            Mood::Silent => std::future::pending().await,
            Mood::Full => Err(refusal("QuotaExceeded", StatusCode::FORBIDDEN)),
            Mood::DiskFull => Err(refusal("XMinioStorageFull", StatusCode::INSUFFICIENT_STORAGE)),
            Mood::NoBucket => Err(s3_error!(NoSuchBucket)),
            Mood::OnePart if is_later_part => Err(s3_error!(ServiceUnavailable)),
            Mood::OnePartThenSilent if is_later_part => {
                self.unanswered_parts.fetch_add(1, Ordering::SeqCst);
                std::future::pending().await
            }
            Mood::Well | Mood::OnePart | Mood::OnePartThenSilent => Ok(()),
        }
    }
}

fn refusal(code: &'static str, status: StatusCode) -> S3Error {
    let mut error = S3Error::new(S3ErrorCode::Custom(code.into()));
    error.set_status_code(status);
    error
}
