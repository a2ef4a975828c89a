//! What an agent keeps on disk: its key, the results that the server does not have yet, and a file for supervisors.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use diode_core::Dataset;
use diode_core::hardware::Hardware;
use diode_core::ids::{Digest, LeaseId};
use diode_formats::Format;
use serde::Serialize;

use crate::agent::service::{Identity, Service};
use crate::collect::journal::Journal;
use crate::failure::Usage;
use crate::output::files::user_folder;
use crate::server::{Answered, Trouble};

/// The folder for what outlives an agent's process: the key that identifies it, and its unsent results.
pub(crate) struct Home {
    folder: PathBuf,
    key: String,
}

impl Home {
    /// Opens the given folder. Without one, opens the user's usual folder.
    pub(crate) fn open(given: Option<&Path>) -> anyhow::Result<Self> {
        let folder = match given {
            Some(folder) => folder.to_owned(),
            None => usual()?,
        };
        fs::create_dir_all(&folder).with_context(|| format!("--home: cannot make {}", folder.display()))?;
        let key = key(&folder.join("key"))?;
        Ok(Self { folder, key })
    }

    /// The key that tells a device from other devices of the account. It is the same whenever the agent starts
    /// in this folder.
    pub(crate) fn device_key(&self, hardware: &Hardware, number: usize) -> String {
        let name = format!("{} {} {number}", self.key, hardware.slug);
        Digest::of(name.as_bytes()).as_str()[..32].to_owned()
    }

    /// Where the results of a device are kept until they are sent.
    pub(crate) fn outbox(&self, hardware: &Hardware, number: usize) -> PathBuf {
        self.folder.join(format!("{}-{number}", hardware.slug))
    }
}

fn usual() -> anyhow::Result<PathBuf> {
    let base = user_folder("XDG_STATE_HOME", ".local/state").ok_or_else(|| {
        Usage::new(
            "neither XDG_STATE_HOME nor HOME is set; say with --home where the agent may keep its results",
        )
    })?;
    Ok(base.join("diode/agent"))
}

/// Reads the key, or draws one. Only its owner may read it, because whoever has it can act as an agent without
/// an account.
fn key(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    match fs::read_to_string(path) {
        Ok(key) if key.parse::<Digest>().is_ok() => return Ok(key),
        Ok(_) => bail!("{shown}: expected 64 hex digits; remove it, and the agent counts as a new one"),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read {shown}")),
    }
    let mut drawn = [0; 32];
    getrandom::fill(&mut drawn).map_err(|error| anyhow!("the system gives no random numbers: {error}"))?;
    let key = Digest::of(&drawn);
    diode_formats::write_privately(path, key.as_str().as_bytes())
        .with_context(|| format!("cannot write {shown}"))?;
    Ok(key.as_str().to_owned())
}

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
    pub(super) fn send(&self, service: &Service, agent: &Identity) -> Answered<()> {
        loop {
            let Some(result) = self.contents().waiting.front().cloned() else { break };
            let bytes = diode_formats::encode(Format::Columnar, std::slice::from_ref(&*result))
                .map_err(anyhow::Error::from)?;
            let lease = result.provenance.node.get(LEASE).and_then(|lease| lease.parse().ok());
            // Every result should name its lease. If one does not, this made-up id is sent; the server stores
            // the result all the same.
            let unknown = LeaseId::of(&bytes);
            let mut answer = service.deliver(agent, lease.as_ref().unwrap_or(&unknown), &bytes);
            // If this device took the lease before it signed in, the server now knows it as another agent.
            // The lease still belongs to the old one.
            if matches!(answer, Err(Trouble::Ended(_))) {
                answer = service.deliver(agent, &unknown, &bytes);
            }
            match answer {
                Ok(_) => {}
                Err(Trouble::Refused(reason)) => self.keep_refused(&bytes, &reason)?,
                Err(trouble) => return Err(trouble),
            }
            self.contents().waiting.pop_front();
        }
        let mut contents = self.contents();
        // A journal can only be emptied as a whole, so this waits until all results are sent. A result that
        // is sent twice is stored once.
        if contents.waiting.is_empty() {
            contents.journal.clear()?;
        }
        Ok(())
    }

    /// Keeps a result that the server refuses, so that nothing that was measured is lost.
    fn keep_refused(&self, bytes: &[u8], reason: &anyhow::Error) -> anyhow::Result<()> {
        fs::create_dir_all(&self.refused)
            .with_context(|| format!("cannot make {}", self.refused.display()))?;
        let path = self.refused.join(format!("{:.16}.msgpack.zst", Digest::of(bytes)));
        diode_formats::write_atomically(&path, bytes)
            .with_context(|| format!("cannot write {}", path.display()))?;
        tell!(Warning, {}, "{reason:#}; {} keeps the result", path.display());
        Ok(())
    }
}

/// A file that tells supervisors what the agent does and when it last did something.
pub(crate) struct Health {
    file: Option<PathBuf>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    devices: BTreeMap<String, DeviceState>,
    written: Option<Instant>,
}

/// What a device does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct DeviceState {
    pub(super) doing: &'static str,
    /// Problems measured since the start.
    pub(super) measured: usize,
    /// Results that have not been sent yet.
    pub(super) unsent: usize,
    /// Seconds since the start that a GPU spent in kernels.
    pub(super) kernel_seconds: f64,
    /// Seconds since the start that went into measuring. The other seconds passed between problems.
    pub(super) measuring_seconds: f64,
}

#[derive(Serialize)]
struct Document<'a> {
    at: String,
    process: u32,
    devices: &'a BTreeMap<String, DeviceState>,
}

/// The least time between two writes of the file. More frequent writes would tell a supervisor nothing
/// more.
const EVERY: Duration = Duration::from_secs(1);

impl Health {
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        Self { file, known: Mutex::default() }
    }

    /// Notes what a device does now.
    pub(super) fn note(&self, device: &str, now: DeviceState) {
        let Some(file) = &self.file else { return };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let doing = now.doing;
        let before = known.devices.insert(device.to_owned(), now);
        let is_news = before.is_none_or(|before| before.doing != doing);
        if !is_news && known.written.is_some_and(|written| written.elapsed() < EVERY) {
            return;
        }
        let at = jiff::Timestamp::now().to_string();
        let document = Document { at, process: std::process::id(), devices: &known.devices };
        // If the file cannot be written, measuring goes on. A supervisor sees from the file's age that
        // it is out of date.
        let written = serde_json::to_vec_pretty(&document)
            .map_err(anyhow::Error::from)
            .and_then(|text| Ok(diode_formats::write_atomically(file, &text)?));
        if let (Err(error), None) = (&written, known.written) {
            tell!(Warning, {}, "--health: cannot write {}: {error:#}", file.display());
        }
        known.written = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use diode_core::hardware::find;

    use super::*;

    #[cfg(unix)]
    #[test]
    fn the_key_is_for_its_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        Home::open(Some(folder.path())).unwrap();
        let mode = fs::metadata(folder.path().join("key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn devices_keep_their_keys() {
        let folder = tempfile::tempdir().unwrap();
        let h200 = find("nvidia-h200").unwrap();
        let key = |number| Home::open(Some(folder.path())).unwrap().device_key(&h200, number);
        assert_eq!(key(0), key(0));
        assert_ne!(key(0), key(1));
        let elsewhere = Home::open(Some(&folder.path().join("other"))).unwrap();
        assert_ne!(elsewhere.device_key(&h200, 0), key(0));
        diode_formats::write_atomically(&folder.path().join("key"), b"x").unwrap();
        assert!(
            Home::open(Some(folder.path())).err().unwrap().to_string().contains("expected 64 hex digits")
        );
    }

    #[test]
    fn the_file_says_what_every_device_does() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("health.json");
        let health = Health::new(Some(file.clone()));
        let does = |doing, measured| DeviceState {
            doing,
            measured,
            unsent: 0,
            kernel_seconds: 0.0,
            measuring_seconds: 0.0,
        };
        health.note("GPU 0", does("measuring", 3));
        health.note("GPU 1", does("waiting for the server", 0));
        let document: serde_json::Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        assert_eq!(document["devices"]["GPU 0"]["measured"], 3);
        assert_eq!(document["devices"]["GPU 1"]["doing"], "waiting for the server");
        assert_eq!(document["process"], std::process::id());
    }
}
