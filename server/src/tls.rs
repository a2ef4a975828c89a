//! TLS without a proxy.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The files of a certificate and its key, as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, followed by the certificates that lead from it to a trusted certificate.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// How often to check whether the files have changed.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The certificate in force. Clones share it.
#[derive(Clone)]
pub struct Tls {
    files: TlsFiles,
    acceptor: Arc<RwLock<TlsAcceptor>>,
}

impl Tls {
    /// Reads the files. Fails if the key does not belong to the certificate.
    pub fn open(files: TlsFiles) -> anyhow::Result<Self> {
        let acceptor = Arc::new(RwLock::new(read(&files)?));
        Ok(Self { files, acceptor })
    }

    /// An acceptor for a new connection.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        // No code panics while it holds this lock.
        self.acceptor.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the files again, for new connections. If that fails, the old certificate stays.
    pub fn reload(&self) -> anyhow::Result<()> {
        let acceptor = read(&self.files)?;
        *self.acceptor.write().unwrap_or_else(PoisonError::into_inner) = acceptor;
        Ok(())
    }

    /// Reads the files again when they change or on SIGHUP, until `stopping` turns true or its sender is gone.
    pub async fn renew(self, mut stopping: watch::Receiver<bool>) {
        let mut hung_up = match signal(SignalKind::hangup()) {
            Ok(hung_up) => hung_up,
            Err(error) => return tracing::error!("the certificate will not be renewed: {error}"),
        };
        let mut seen = changes(&self.files);
        loop {
            let asked = tokio::select! {
                _ = hung_up.recv() => true,
                stopped = timeout(LOOK_EVERY, stopping.wait_for(|stop| *stop)) => match stopped {
                    Ok(_) => return,
                    Err(_) => false,
                },
            };
            let now = changes(&self.files);
            if !asked && now == seen {
                continue;
            }
            match self.reload() {
                Ok(()) => tracing::info!("the certificate was read anew"),
                // Perhaps only one of the two files has been replaced yet. The next check notices the other.
                Err(error) => tracing::error!("the certificate stays as it was: {error:#}"),
            }
            seen = now;
        }
    }
}

/// When each file was last changed; `None` for a file that does not exist.
fn changes(files: &TlsFiles) -> [Option<SystemTime>; 2] {
    let of = |path: &Path| std::fs::metadata(path).and_then(|found| found.modified()).ok();
    [of(&files.certificate), of(&files.key)]
}

fn read(files: &TlsFiles) -> anyhow::Result<TlsAcceptor> {
    let TlsFiles { certificate, key } = files;
    let about = |what: &str, path: &Path| format!("{what} {}", path.display());
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .with_context(|| about("tls_certificate", certificate))?;
    if chain.is_empty() {
        bail!("{}: got no certificate, expected PEM", about("tls_certificate", certificate));
    }
    let private = PrivateKeyDer::from_pem_file(key).with_context(|| about("tls_key", key))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .with_context(|| {
            format!("{} and {}", about("tls_certificate", certificate), about("tls_key", key))
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
