//! Blobs in a bucket of S3-compatible storage.
//!
//! The connections are our own: the library's HTTP client (reqwest) needs certificates on the machine even without TLS,
//! decides which cryptography all programs in the workspace use, and cannot refuse at once after a silence.

use std::error::Error;
use std::iter::successors;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Bytes;
use futures_util::TryStreamExt as _;
use hyper::body::{Body, Frame, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as TcpConnector;
use hyper_util::rt::TokioExecutor;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};
use object_store::path::Path as BlobPath;
use object_store::prefix::PrefixStore;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::blobs::place::Bucket;

/// Requests are tried again for at most this long, because somebody waits for the answer.
const RETRY_FOR: Duration = Duration::from_secs(4);
const RETRIES: usize = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Fails if the bucket does not exist, does not answer or refuses access. The error says what to do.
pub(super) async fn open(bucket: &Bucket) -> Result<Arc<dyn ObjectStore>, Box<dyn Error + Send + Sync>> {
    let store = PrefixStore::new(connect(bucket)?, BlobPath::parse(&bucket.prefix)?);
    if let Err(error) = store.list(None).try_next().await {
        let error = error.to_string();
        return Err(format!("{error}; {}", advice(&error)).into());
    }
    Ok(Arc::new(store))
}

fn connect(bucket: &Bucket) -> Result<AmazonS3, Box<dyn Error + Send + Sync>> {
    let retry = RetryConfig {
        backoff: BackoffConfig { init_backoff: FIRST_PAUSE, max_backoff: LONGEST_PAUSE, base: 2.0 },
        max_retries: RETRIES,
        retry_timeout: RETRY_FOR,
    };
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(&bucket.name)
        .with_region(&bucket.region)
        .with_virtual_hosted_style_request(!bucket.path_style)
        // The request to remove many files at once is not needed, and some storage does not support it.
        .with_disable_bulk_delete(true)
        .with_http_connector(Connector::trusting(bucket.ca.as_deref())?)
        .with_retry(retry);
    if let Some(endpoint) = bucket.address() {
        // The settings have already checked whether the endpoint may be without TLS.
        builder = builder.with_endpoint(endpoint).with_allow_http(true);
    }
    for (name, value) in bucket.keys.values() {
        builder = builder.with_config(name.to_ascii_lowercase().parse()?, value);
    }
    Ok(builder.build()?)
}

/// Only the text of the library's error tells why listing failed.
fn advice(error: &str) -> &'static str {
    if error.contains("404 Not Found") {
        "create the bucket, which diode-server does not do by itself"
    } else if error.contains("401 Unauthorized") || error.contains("403 Forbidden") {
        "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: they must be allowed to list, read, write and delete there"
    } else {
        "check that the storage runs, its endpoint (--s3-endpoint or AWS_ENDPOINT_URL) and AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY"
    }
}

/// How long it may take to connect.
const CONNECT: Duration = Duration::from_secs(3);

/// How long an answer, or its next bytes, may take. A part of a large file must be sent within this time, which
/// takes 4 Mbit/s.
const ANSWER: Duration = Duration::from_secs(10);

/// After the storage did not answer in time, no request is sent for this long. Otherwise all requests that wait
/// for a turn would each wait for the silent storage, one after the other.
const PAUSE: Duration = Duration::from_secs(2);

/// Makes connections, with TLS if the address says so.
#[derive(Debug)]
pub(super) struct Connector {
    trusted: Arc<RootCertStore>,
}

impl Connector {
    /// Trusts the certificates in a file or, without a file, the public certificates.
    pub(super) fn trusting(file: Option<&Path>) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let mut trusted = RootCertStore::empty();
        match file {
            None => trusted.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Some(file) => {
                let named = |error: &dyn Error| format!("certificates {}: {error}", file.display());
                for certificate in CertificateDer::pem_file_iter(file).map_err(|error| named(&error))? {
                    let certificate = certificate.map_err(|error| named(&error))?;
                    trusted.add(certificate).map_err(|error| named(&error))?;
                }
                if trusted.is_empty() {
                    return Err(format!(
                        "certificates {}: there is none, expected PEM (-----BEGIN CERTIFICATE-----)",
                        file.display()
                    )
                    .into());
                }
            }
        }
        Ok(Self { trusted: Arc::new(trusted) })
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let failed =
            |error: rustls::Error| object_store::Error::Generic { store: "TLS", source: error.into() };
        let tls = ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .with_root_certificates(Arc::clone(&self.trusted))
            .with_no_client_auth();
        let mut tcp = TcpConnector::new();
        tcp.set_connect_timeout(Some(CONNECT));
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(HttpClient::new(Storage { client, silent: Mutex::new(None) }))
    }
}

#[derive(Debug)]
struct Storage {
    client: Client<HttpsConnector<TcpConnector>, HttpRequestBody>,
    /// When the storage last gave no answer in time.
    silent: Mutex<Option<Instant>>,
}

#[async_trait]
impl HttpService for Storage {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.refuse_after_silence()?;
        let began = Instant::now();
        let answer = timeout(ANSWER, self.client.request(request)).await;
        let answer = answer.map_or_else(|_| Err(late()), |answer| answer.map_err(request_error));
        if answer.is_err() && began.elapsed() >= CONNECT {
            *self.silent.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        let (parts, body) = answer?.into_parts();
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(Steady { body, patience: None })))
    }
}

impl Storage {
    fn refuse_after_silence(&self) -> Result<(), HttpError> {
        let silent = *self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        match silent {
            // The library does not try again after an error of this kind.
            Some(when) if when.elapsed() < PAUSE => Err(HttpError::new_boxed(
                HttpErrorKind::Unknown,
                "the storage has just been silent, so it was not asked".into(),
            )),
            _ => Ok(()),
        }
    }
}

/// A body that fails if none of it arrives for too long.
struct Steady {
    body: Incoming,
    patience: Option<Pin<Box<Sleep>>>,
}

impl Body for Steady {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            // No time counts between two frames, because the server's own client may be slow.
            this.patience = None;
            return Poll::Ready(
                frame.map(|frame| frame.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error))),
            );
        }
        ready!(this.patience.get_or_insert_with(|| Box::pin(sleep(ANSWER))).as_mut().poll(context));
        Poll::Ready(Some(Err(late())))
    }
}

fn late() -> HttpError {
    let error = format!("no answer within {} s", ANSWER.as_secs());
    HttpError::new_boxed(HttpErrorKind::Timeout, error.into())
}

/// The kind of the error decides whether the library tries again. Storing a file twice does no harm: its name is
/// its digest.
fn request_error(error: hyper_util::client::legacy::Error) -> HttpError {
    let causes = || successors(Some(&error as &(dyn Error + 'static)), |&cause| cause.source());
    let has_broken = causes().any(|cause| {
        let error = cause.downcast_ref::<hyper::Error>();
        error.is_some_and(|error| error.is_closed() || error.is_incomplete_message())
    });
    let kind = if error.is_connect() {
        HttpErrorKind::Connect
    } else if has_broken {
        HttpErrorKind::Request
    } else {
        HttpErrorKind::Interrupted
    };
    // The library prints only the first cause.
    let words: Vec<String> = causes().map(ToString::to_string).collect();
    HttpError::new_boxed(kind, words.join(": ").into())
}
