//! Takes the place of `certificate` in a program that was built without TLS.

use std::io;

use anyhow::bail;
use tokio::sync::watch;

use super::TlsFiles;

/// No value of this type exists.
#[derive(Clone)]
pub enum Tls {}

impl Tls {
    pub fn open(files: TlsFiles) -> anyhow::Result<Self> {
        bail!(
            "tls_certificate: got `{}`, but this diode-server was built without the feature `tls`; build it with \
             `cargo build --package diode-server`, or remove the setting",
            files.certificate.display()
        );
    }

    pub(crate) fn acceptor(&self) -> Acceptor {
        match *self {}
    }

    pub fn reload(&self) -> anyhow::Result<()> {
        match *self {}
    }

    pub async fn renew(self, _: watch::Receiver<bool>) {
        match self {}
    }
}

/// No value of this type exists.
pub(crate) enum Acceptor {}

impl Acceptor {
    pub(crate) async fn accept<S>(&self, _: S) -> io::Result<S> {
        match *self {}
    }
}
