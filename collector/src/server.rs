//! The Diode server that commands use: its address, how to reach it, and the token to send to it.

mod address;
mod client;
mod download;
mod packs;
mod rehearsal;
mod send;
mod terms;
mod token_file;
mod versions;

pub(crate) use address::Address;
pub(crate) use client::{Answer, Client, judge, refusal, retry_after, wait_for};
pub(crate) use download::Download;
pub(crate) use packs::{NoPack, packs, pull};
pub(crate) use rehearsal::{Rehearsed, rehearse};
pub(crate) use send::send;
pub(crate) use terms::{Consent, TermsArgs, terms_of};
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

/// Where kernel packs are pulled from, if that is wanted.
#[derive(Debug, Clone, Args)]
pub(crate) struct PackServerArgs {
    /// Server to pull kernel packs from, if this node has none
    #[arg(long, env = "DIODE_SERVER", value_name = "URL")]
    server: Option<String>,

    /// A file of certificates (PEM) to trust instead of the public ones
    #[arg(long, env = "DIODE_CA", value_name = "FILE")]
    ca: Option<PathBuf>,

    /// Run no kernels of a server
    #[arg(long)]
    no_server_packs: bool,
}

impl PackServerArgs {
    /// `None` if no server was named, or if its packs may not run.
    pub(crate) fn client(&self) -> anyhow::Result<Option<Client>> {
        let (Some(server), false) = (&self.server, self.no_server_packs) else { return Ok(None) };
        ServerArgs { server: server.clone(), ca: self.ca.clone() }.client().map(Some)
    }

    /// Whether kernels from a server may run, including those pulled earlier.
    pub(crate) fn may_run(&self) -> bool {
        !self.no_server_packs
    }
}

impl ServerArgs {
    /// A client that sends no token.
    pub(crate) fn stranger(&self) -> anyhow::Result<Client> {
        Client::new(Address::parse(&self.server)?, self.ca.as_deref())
    }

    /// A client with a token, if there is one: from `DIODE_TOKEN`, or from the file that `diode
    /// login` writes.
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
