//! Whether the server can do its work. A check writes to the database and to the storage. Its result is kept for a
//! moment, so that the storage is checked rarely and by one request at a time, however many requests ask.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use tokio::sync::Mutex;

use crate::accounts::Peer;
use crate::app::App;
use crate::backend::Backend;
use crate::http::ApiResult;

/// How old a result may be: a supervisor asks only every few seconds.
const LASTS: Duration = Duration::from_secs(2);

/// The result of a check, and its time.
struct Found {
    at: Instant,
    outcome: ApiResult<()>,
}

#[derive(Clone)]
pub(crate) struct Readiness {
    lasts: Duration,
    last: Arc<Mutex<Option<Found>>>,
}

impl Default for Readiness {
    fn default() -> Self {
        Self::lasting(LASTS)
    }
}

impl Readiness {
    /// Keeps each result for `lasts`.
    pub(crate) fn lasting(lasts: Duration) -> Self {
        Self { lasts, last: Arc::default() }
    }

    /// Fails if the database or the blobs cannot be written to.
    pub(crate) async fn of(&self, backend: &Backend) -> ApiResult<()> {
        // Requests that waited here use the result of the request before them.
        let mut last = self.last.lock().await;
        if let Some(Found { at, outcome }) = last.as_ref()
            && at.elapsed() < self.lasts
        {
            return outcome.clone();
        }
        let outcome = probe(backend).await;
        *last = Some(Found { at: Instant::now(), outcome: outcome.clone() });
        outcome
    }
}

async fn probe(backend: &Backend) -> ApiResult<()> {
    backend.store.probe().await?;
    Ok(backend.blobs.probe().await?)
}

/// The header in which `/healthz` says as whose address a request counts, so that a wrong proxy is noticed.
pub(crate) const SEEN_FROM: &str = "diode-seen-from";

/// Answers if the process is alive.
pub(crate) async fn healthz(Peer(address): Peer) -> ([(&'static str, String); 1], &'static str) {
    ([(SEEN_FROM, address)], "ok\n")
}

/// Answers if the process can do its work: it can write to the database and store blobs.
pub(crate) async fn readyz(State(app): State<App>) -> ApiResult<&'static str> {
    app.readiness.of(&app.backend).await?;
    Ok("ok\n")
}

/// A path, and the file or folder that it named when it was opened. A server must not go on writing into a moved or
/// deleted one: it would acknowledge data that nobody finds again.
#[derive(Debug, Clone)]
pub(crate) struct PathIdentity {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl PathIdentity {
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let found = std::fs::metadata(path)?;
        Ok(Self { path: path.to_owned(), device: found.dev(), inode: found.ino() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Fails unless the path still names the same file or folder.
    pub(crate) fn check(&self) -> io::Result<()> {
        let refuse = |what: &str| {
            let message = format!("{}: {what}; put it back, or restart the server", self.path.display());
            io::Error::other(message)
        };
        match Self::of(&self.path) {
            Ok(now) if (now.device, now.inode) == (self.device, self.inode) => Ok(()),
            Ok(_) => Err(refuse("it is another one than when the server was started")),
            Err(error) => Err(refuse(&error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_moved_away_is_missed_until_it_is_back() {
        let folder = tempfile::tempdir().unwrap();
        let (path, away) = (folder.path().join("blobs"), folder.path().join("away"));
        std::fs::create_dir(&path).unwrap();
        let place = PathIdentity::of(&path).unwrap();
        place.check().unwrap();
        std::fs::rename(&path, &away).unwrap();
        let error = place.check().unwrap_err().to_string();
        assert!(error.contains("put it back"), "{error}");
        std::fs::create_dir(&path).unwrap();
        let error = place.check().unwrap_err().to_string();
        assert!(error.contains("another one"), "{error}");
        std::fs::remove_dir(&path).unwrap();
        std::fs::rename(&away, &path).unwrap();
        place.check().unwrap();
    }
}
