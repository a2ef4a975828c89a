use anyhow::bail;
use clap::Args;

use crate::server::{ServerArgs, TokenFile, refusal};

/// Revoke the token of a Diode server, and forget it
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  diode logout --server https://diode.example.org")]
pub(crate) struct Logout {
    #[command(flatten)]
    server: ServerArgs,
}

impl Logout {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let (file, client) = (TokenFile::needed()?, self.server.stranger()?);
        let Some(token) = file.token(client.address())? else {
            bail!("there is no token for {} in {}", client.address(), file.path().display());
        };
        let client = client.with_token(token)?;
        let mut answer = client.delete("/session")?;
        // A token that no longer works was revoked on the server's page, or has expired.
        if !answer.status().is_success() && answer.status() != 401 {
            return Err(refusal(&mut answer).1.context("the token was not revoked"));
        }
        file.forget(client.address())?;
        say!("logged out of {}; the token does not work any more", client.address());
        Ok(())
    }
}
