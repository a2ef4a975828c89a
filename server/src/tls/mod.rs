//! TLS that the server ends itself.

#[cfg_attr(not(feature = "tls"), path = "absent.rs")]
mod certificate;

use std::path::PathBuf;

pub use certificate::Tls;

/// Where a certificate and its key lie, as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate first, then those between it and a trusted one.
    pub certificate: PathBuf,
    pub key: PathBuf,
}
