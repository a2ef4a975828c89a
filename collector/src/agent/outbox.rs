use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use diode_core::Dataset;
use diode_core::ids::{Digest, LeaseId};
use diode_formats::Format;

use super::service::{Answered, Identity, Service, Trouble};
use crate::collect::journal::Journal;

/// The name of the node fact that states which lease a dataset was measured for.
const LEASE: &str = "lease";

/// What a device has measured and the server has not acknowledged yet. It is in a journal on disk.
pub(super) struct Outbox {
    contents: Mutex<Contents>,
    /// The folder for results that the server refuses.
    refused: PathBuf,
}

struct Contents {
    journal: Journal,
    /// The results in the journal, in the order in which they were measured.
    waiting: VecDeque<Arc<Dataset>>,
}

impl Outbox {
    /// Opens the outbox, with what an earlier process left in it.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let mut journal = Journal::beside(path);
        journal.open()?;
        let waiting = journal.entries()?.into_iter().map(Arc::new).collect();
        let contents = Mutex::new(Contents { journal, waiting });
        Ok(Self { contents, refused: path.with_added_extension("refused") })
    }

    pub(super) fn len(&self) -> usize {
        self.contents().waiting.len()
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a result. It is on disk when this returns.
    pub(super) fn add(&self, lease: &LeaseId, mut result: Dataset) -> anyhow::Result<()> {
        result.provenance.node.insert(LEASE.to_owned(), lease.to_string());
        let mut contents = self.contents();
        contents.journal.append(&result)?;
        contents.waiting.push_back(Arc::new(result));
        Ok(())
    }

    /// Sends the waiting results one after the other, and drops each that the server acknowledges. Only one
    /// thread at a time may call this; other threads may add results meanwhile.
    pub(super) fn send(&self, service: &Service, agent: &Identity) -> anyhow::Result<Answered<()>> {
        loop {
            let Some(result) = self.contents().waiting.front().cloned() else { break };
            let bytes = diode_formats::encode(Format::Columnar, std::slice::from_ref(&*result))?;
            let lease = result.provenance.node.get(LEASE).and_then(|lease| lease.parse().ok());
            // Every result should name its lease. If one does not, this made-up id is sent; the server stores
            // the result all the same.
            let unknown = LeaseId::of(&bytes);
            let mut answer = service.deliver(agent, lease.as_ref().unwrap_or(&unknown), &bytes);
            // If this device took the lease before it signed in, the server now knows it as another agent.
            // The lease still belongs to the old one.
            if matches!(answer, Err(Trouble::Ended)) {
                answer = service.deliver(agent, &unknown, &bytes);
            }
            match answer {
                Ok(_) => {}
                Err(Trouble::Refused(reason)) => self.keep_refused(&bytes, &reason)?,
                Err(trouble) => return Ok(Err(trouble)),
            }
            self.contents().waiting.pop_front();
        }
        let mut contents = self.contents();
        // A journal can only be emptied as a whole, so this waits until all results are sent. A result that
        // is sent twice is stored once.
        if contents.waiting.is_empty() {
            contents.journal.clear()?;
        }
        Ok(Ok(()))
    }

    /// Keeps a result that the server refuses, so that nothing that was measured is lost.
    fn keep_refused(&self, bytes: &[u8], reason: &anyhow::Error) -> anyhow::Result<()> {
        std::fs::create_dir_all(&self.refused)
            .with_context(|| format!("cannot make {}", self.refused.display()))?;
        let path = self.refused.join(format!("{:.16}.msgpack.zst", Digest::of(bytes)));
        diode_formats::write_atomically(&path, bytes)
            .with_context(|| format!("cannot write {}", path.display()))?;
        tell!(Warning, {}, "{reason:#}; {} keeps the result", path.display());
        Ok(())
    }
}
