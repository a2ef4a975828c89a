//! The Diode server that commands talk to: its address, the way there, and the token it is shown.

mod address;
mod client;
mod token_file;

pub(crate) use address::Address;
pub(crate) use client::{Answer, Client, judge, refusal, retry_after, wait_for};
pub(crate) use token_file::{TokenFile, checked as checked_token};

use std::path::PathBuf;

use clap::Args;

/// Which server, and how to reach it.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// Address of the server
    #[arg(long, env = "DIODE_SERVER", default_value = "http://127.0.0.1:8080", value_name = "URL")]
    pub(crate) server: String,

    /// A file of certificates (PEM) to trust instead of the public ones
    #[arg(long, env = "DIODE_CA", value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
}

impl ServerArgs {
    /// A client without a token.
    pub(crate) fn stranger(&self) -> anyhow::Result<Client> {
        Client::new(Address::parse(&self.server)?, self.ca.as_deref())
    }

    /// A client with the token of `DIODE_TOKEN`, or of the file that `diode login` writes. Without
    /// either it shows none.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let client = self.stranger()?;
        let token = match token_file::from_environment()? {
            Some(token) => Some(token),
            None => TokenFile::find().map(|file| file.token(client.address())).transpose()?.flatten(),
        };
        match token {
            Some(token) => client.with_token(token),
            None => Ok(client),
        }
    }
}
