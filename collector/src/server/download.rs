//! Downloads a large file from a server. If the connection breaks, the bytes that arrived stay, and only
//! the rest is asked for.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use diode_core::ids::Digest;
use diode_formats::size_and_digest;

use crate::output::log::Progress;
use crate::server::client::{Answer, Client, Trouble, successful, wait_for};

/// After this many attempts in a row without a new byte, the download is given up. The bytes that arrived
/// stay for the next command.
const TRIES: u32 = 5;

/// The pause before the second attempt. It doubles with each further attempt.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// A file of a server, and the path to write it to.
pub(crate) struct Download<'a> {
    /// The path below `/api/v1`.
    pub(crate) path: &'a str,
    pub(crate) bytes: u64,
    pub(crate) sha256: &'a Digest,
    pub(crate) to: &'a Path,
}

/// How an attempt to get the rest of a file ended.
enum Ended {
    Whole,
    /// The connection broke. Trying again may help, after the given time if the server named one.
    Broke(anyhow::Error, Option<Duration>),
}

impl Download<'_> {
    /// Downloads the file, unless it is there already. Only content with the right digest gets the file's
    /// name.
    pub(crate) fn fetch(&self, client: &Client) -> anyhow::Result<()> {
        let shown = self.to.display();
        if self.to.symlink_metadata().is_ok() {
            let there = size_and_digest(self.to).with_context(|| format!("cannot read {shown}"))?;
            if there == (self.bytes, self.sha256.clone()) {
                return Ok(());
            }
            bail!("{shown} exists and is another file; move it away or name another folder with --out");
        }
        let part = self.part();
        self.arrive(client, &part)?;
        let (bytes, digest) =
            size_and_digest(&part).with_context(|| format!("cannot read {}", part.display()))?;
        if (bytes, &digest) != (self.bytes, self.sha256) {
            fs::remove_file(&part).with_context(|| format!("cannot remove {}", part.display()))?;
            bail!(
                "{shown}: what arrived has the SHA-256 {digest} and {bytes} bytes, expected {} and {}; it was removed, \
                 try again",
                self.sha256,
                self.bytes
            );
        }
        fs::rename(&part, self.to).with_context(|| format!("cannot write {shown}"))
    }

    fn part(&self) -> PathBuf {
        let mut name = self.to.as_os_str().to_owned();
        name.push(".part");
        name.into()
    }

    fn arrive(&self, client: &Client, part: &Path) -> anyhow::Result<()> {
        let size = || fs::metadata(part).map_or(0, |file| file.len());
        let (mut failures, mut wait) = (0, FIRST_WAIT);
        loop {
            let before = size();
            let (error, asked) = match self.go_on(client, part, before)? {
                Ended::Whole => return Ok(()),
                Ended::Broke(error, asked) => (error, asked),
            };
            if size() > before {
                (failures, wait) = (0, FIRST_WAIT);
            }
            failures += 1;
            if failures >= TRIES {
                return Err(error.context(format!(
                    "{} did not arrive; {} of {} bytes are kept, and the same command goes on from there",
                    self.to.display(),
                    size(),
                    self.bytes
                )));
            }
            let pause = wait_for(asked, wait);
            say!("the download broke off ({error:#}); going on in {:.1} s", pause.as_secs_f64());
            std::thread::sleep(pause);
            wait *= 2;
        }
    }

    /// Asks for the missing bytes and appends them.
    fn go_on(&self, client: &Client, part: &Path, there: u64) -> anyhow::Result<Ended> {
        let from = if there <= self.bytes { there } else { 0 };
        if from == self.bytes && from > 0 {
            return Ok(Ended::Whole);
        }
        let mut answer = match successful(client.getting_from(self.path, from, self.sha256)) {
            Err(Trouble::Away(error, asked)) => return Ok(Ended::Broke(error, asked)),
            other => other?,
        };
        let from = match answer.status().as_u16() {
            206 if begins_at(&answer, from) => from,
            206 => bail!("the server sent another part than bytes {from} and on; is it a Diode server?"),
            // The server sends the whole file, so it begins at its start again.
            _ => 0,
        };
        let unwritable = || format!("cannot write {}", part.display());
        let mut file = OpenOptions::new().create(true).append(true).open(part).with_context(unwritable)?;
        file.set_len(from).with_context(unwritable)?;
        let mut body = Arriving::new(answer.body_mut().as_reader());
        // One byte more is read than expected, so that a file that is too long is noticed.
        let most = (self.bytes - from).saturating_add(1);
        let mut progress = Progress::of_bytes(self.bytes);
        let copied = io::copy(&mut progress.watch((&mut body).take(most), from), &mut file);
        match (copied, body.broke) {
            (_, Some(error)) => Ok(Ended::Broke(error.into(), None)),
            (Err(error), None) => Err(error).with_context(unwritable),
            (Ok(copied), None) if from + copied < self.bytes => {
                Ok(Ended::Broke(anyhow::anyhow!("the answer ended early"), None))
            }
            (Ok(_), None) => file.sync_all().with_context(unwritable).map(|()| Ended::Whole),
        }
    }
}

fn begins_at(answer: &Answer, from: u64) -> bool {
    let range = answer.headers().get("content-range").and_then(|range| range.to_str().ok());
    range.is_some_and(|range| range.starts_with(&format!("bytes {from}-")))
}

/// The body of an answer. It notes whether the connection broke.
pub(crate) struct Arriving<R> {
    body: R,
    pub(crate) broke: Option<io::Error>,
}

impl<R> Arriving<R> {
    pub(crate) fn new(body: R) -> Self {
        Self { body, broke: None }
    }
}

impl<R: Read> Read for Arriving<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.body.read(buffer) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                let told = io::Error::other(error.to_string());
                self.broke = Some(error);
                Err(told)
            }
            other => other,
        }
    }
}
