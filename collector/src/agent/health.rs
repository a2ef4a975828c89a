use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

/// A file that tells supervisors what the agent does and when it last did something.
pub(crate) struct Health {
    file: Option<PathBuf>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    devices: BTreeMap<String, Device>,
    written: Option<Instant>,
}

/// What a device does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Device {
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
    devices: &'a BTreeMap<String, Device>,
}

/// The least time between two writes of the file. More frequent writes would tell a supervisor nothing
/// more.
const EVERY: Duration = Duration::from_secs(1);

impl Health {
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        Self { file, known: Mutex::default() }
    }

    /// Notes what a device does now.
    pub(super) fn note(&self, device: &str, now: Device) {
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
    use super::*;

    #[test]
    fn the_file_says_what_every_device_does() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("health.json");
        let health = Health::new(Some(file.clone()));
        let does = |doing, measured| Device {
            doing,
            measured,
            unsent: 0,
            kernel_seconds: 0.0,
            measuring_seconds: 0.0,
        };
        health.note("GPU 0", does("measuring", 3));
        health.note("GPU 1", does("waiting for the server", 0));
        let document: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        assert_eq!(document["devices"]["GPU 0"]["measured"], 3);
        assert_eq!(document["devices"]["GPU 1"]["doing"], "waiting for the server");
        assert_eq!(document["process"], std::process::id());
    }
}
