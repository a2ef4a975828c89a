//! The connections to S3-compatible storage. The library's own HTTP client (reqwest) would need certificates on
//! the machine even without TLS. It would also decide which cryptography all programs in the workspace use.

use std::error::Error;
use std::iter::successors;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Bytes;
use hyper::body::{Body, Frame, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as TcpConnector;
use hyper_util::rt::TokioExecutor;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::{Instant, Sleep, sleep, timeout};

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
