//! TLS without a proxy.

mod certificate;

use std::path::PathBuf;

pub use certificate::Tls;

/// The files of a certificate and its key, as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, followed by the certificates that lead from it to a trusted certificate.
    pub certificate: PathBuf,
    pub key: PathBuf,
}
