//! Kernel packs of a server. They are code: only what their digest names is kept, see [`PackCache`].

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use diode_core::api::PackSummary;
use ureq::Error;

use super::client::{Answer, Client, refusal, retry_after};
use crate::kernels::{ABI, PackCache};

/// Why there is no pack.
pub(crate) enum NoPack {
    /// The server cannot be reached, or is busy; trying again helps, and after so long if it says so.
    Away(anyhow::Error, Option<Duration>),
    /// Trying again does not help.
    Refused(anyhow::Error),
}

impl From<NoPack> for anyhow::Error {
    fn from(error: NoPack) -> Self {
        match error {
            NoPack::Away(error, _) | NoPack::Refused(error) => error,
        }
    }
}

/// The packs that this program can launch, newest first. A server that is too old for packs has none.
pub(crate) fn packs(client: &Client, arch: Option<&str>) -> Result<Vec<PackSummary>, NoPack> {
    let query = arch.map_or_else(String::new, |arch| format!("?architecture={arch}"));
    let mut answer = judged(client.getting(&format!("/packs{query}")))?;
    if answer.status().as_u16() == 404 {
        return Ok(Vec::new());
    }
    if !answer.status().is_success() {
        return Err(refused(&mut answer));
    }
    let listed: Vec<PackSummary> = answer
        .body_mut()
        .read_json()
        .context("the answer is not understood; is it a Diode server?")
        .map_err(NoPack::Refused)?;
    Ok(listed.into_iter().filter(|pack| pack.abi.as_deref() == Some(ABI)).collect())
}

/// The file of a pack: the one that is here already, or that of the server.
pub(crate) fn pull(client: &Client, cache: &PackCache, pack: &PackSummary) -> Result<PathBuf, NoPack> {
    if let Some(path) = cache.pulled(&pack.digest) {
        return Ok(path);
    }
    say!(
        "pulling the kernel pack {:.12} ({:.1} MiB) from {}",
        pack.digest,
        pack.bytes as f64 / f64::from(1 << 20),
        client.address()
    );
    let mut answer = judged(client.getting(&format!("/packs/{}", pack.digest)))?;
    if !answer.status().is_success() {
        return Err(refused(&mut answer));
    }
    cache.keep(&pack.digest, pack.bytes, answer.body_mut().as_reader()).map_err(NoPack::Refused)
}

fn judged(answer: Result<Answer, Error>) -> Result<Answer, NoPack> {
    match answer {
        Ok(answer) => Ok(answer),
        Err(error @ Error::BadUri(_)) => Err(NoPack::Refused(error.into())),
        Err(error) => {
            Err(NoPack::Away(anyhow::Error::new(error).context("the server cannot be reached"), None))
        }
    }
}

fn refused(answer: &mut Answer) -> NoPack {
    let (status, asked) = (answer.status().as_u16(), retry_after(answer));
    let (_, words) = refusal(answer);
    match status {
        408 | 429 | 500.. => NoPack::Away(words, asked),
        _ => NoPack::Refused(words),
    }
}
