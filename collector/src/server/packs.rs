//! Pulls kernel packs of a server. Packs are code, so they are kept only if their digest is right, see
//! [`PackCache`].

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use diode_api::PackSummary;
use ureq::Error;

use super::client::{Answer, Client, refusal, retry_after};
use crate::kernels::{ABI, PackCache};

/// Locked while a pack is pulled. The GPUs of a node are threads of one process, and several often lack
/// the same pack.
static PULLING: Mutex<()> = Mutex::new(());

/// Why a pack could not be pulled.
pub(crate) enum NoPack {
    /// The server cannot be reached or is busy. Trying again helps, after the given time if the server
    /// named one.
    Away(anyhow::Error, Option<Duration>),
    /// The server does not have the pack, or no longer has it.
    Gone(anyhow::Error),
    /// Trying again does not help.
    Refused(anyhow::Error),
}

impl From<NoPack> for anyhow::Error {
    fn from(error: NoPack) -> Self {
        match error {
            NoPack::Away(error, _) | NoPack::Gone(error) | NoPack::Refused(error) => error,
        }
    }
}

/// The server's packs that this program can launch, newest first. The list is empty if the server is
/// too old to have packs.
pub(crate) fn packs(client: &Client, arch: Option<&str>) -> Result<Vec<PackSummary>, NoPack> {
    let query = arch.map_or_else(String::new, |arch| format!("?architecture={arch}"));
    let mut answer = judged(client.getting(&format!("/packs{query}")))?;
    if answer.status().as_u16() == 404 {
        return Ok(Vec::new());
    }
    if !answer.status().is_success() {
        return Err(refused(&mut answer));
    }
    let listed: Vec<PackSummary> = answer.body_mut().read_json().map_err(not_understood)?;
    Ok(listed.into_iter().filter(|pack| pack.abi.as_deref() == Some(ABI)).collect())
}

/// The file of a pack: from the cache, or else pulled from the server.
pub(crate) fn pull(client: &Client, cache: &PackCache, pack: &PackSummary) -> Result<PathBuf, NoPack> {
    if let Some(path) = cache.pulled(&pack.digest) {
        return Ok(path);
    }
    let _pulling = PULLING.lock().unwrap_or_else(PoisonError::into_inner);
    // The thread of another GPU may have pulled it meanwhile.
    if let Some(path) = cache.pulled(&pack.digest) {
        return Ok(path);
    }
    say!(
        "pulling the kernel pack {:.12} ({:.1} MiB) from {}",
        pack.digest,
        pack.bytes as f64 / f64::from(1 << 20),
        client.address()
    );
    let mut answer = judged(client.getting_much(&format!("/packs/{}", pack.digest)))?;
    if !answer.status().is_success() {
        return Err(refused(&mut answer));
    }
    let mut body = Arriving { body: answer.body_mut().as_reader(), broke: false };
    cache.keep(&pack.digest, pack.bytes, &mut body).map_err(|error| {
        if body.broke {
            NoPack::Away(anyhow::anyhow!("the pack did not arrive: {}", error.root_cause()), None)
        } else {
            NoPack::Refused(error)
        }
    })
}

/// The body of an answer. It notes whether the connection broke.
struct Arriving<R> {
    body: R,
    broke: bool,
}

impl<R: Read> Read for Arriving<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.body.read(buffer);
        self.broke |= read.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::Interrupted);
        read
    }
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

/// Another attempt may help if the answer broke off. It does not help if the whole answer arrived and
/// is of another form.
fn not_understood(error: Error) -> NoPack {
    let breaks_off = match &error {
        Error::Io(_) | Error::Timeout(_) => true,
        Error::Json(error) => error.is_io() || error.is_eof(),
        _ => false,
    };
    let error = anyhow::Error::new(error).context("the answer is not understood; is it a Diode server?");
    if breaks_off { NoPack::Away(error, None) } else { NoPack::Refused(error) }
}

fn refused(answer: &mut Answer) -> NoPack {
    let (status, asked) = (answer.status().as_u16(), retry_after(answer));
    let (_, words) = refusal(answer);
    match status {
        404 => NoPack::Gone(words),
        408 | 429 | 500.. => NoPack::Away(words, asked),
        _ => NoPack::Refused(words),
    }
}
