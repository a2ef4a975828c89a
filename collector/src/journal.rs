//! What was measured since the file was last saved, so that a collection that is
//! killed loses the problem in flight and no more.
//!
//! Beside the output stands `<output>.journal`: for each problem its length in four
//! bytes and a columnar file of it alone. Saving the output removes the journal.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context;
use diode_core::Dataset;
use diode_formats::Format;

pub(crate) struct Journal {
    path: PathBuf,
    file: Option<File>,
}

impl Journal {
    /// The journal of an output. Nothing is created yet.
    pub(crate) fn beside(output: &Path) -> Self {
        let mut path = output.as_os_str().to_owned();
        path.push(".journal");
        Self { path: path.into(), file: None }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it holds anything.
    pub(crate) fn is_empty(&self) -> bool {
        fs::metadata(&self.path).map_or(true, |file| file.len() == 0)
    }

    /// What an earlier collection left behind, in the order in which it was measured.
    pub(crate) fn entries(&self) -> anyhow::Result<Vec<Dataset>> {
        let bytes = match fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            read => read.with_context(|| format!("cannot read {}", self.path.display()))?,
        };
        let mut entries = Vec::new();
        let mut rest = bytes.as_slice();
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            // The last entry is torn if the machine died while it was written.
            let Some(Ok(entry)) = after.get(..length).map(diode_formats::decode) else { break };
            entries.extend(entry.datasets);
            rest = &after[length..];
        }
        Ok(entries)
    }

    /// Finds out now whether the folder can be written to, and not after hours of measuring.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        self.write(&[]).with_context(|| self.cannot())
    }

    /// Adds a dataset of one problem. It is on disk when this returns.
    pub(crate) fn append(&mut self, entry: &Dataset) -> anyhow::Result<()> {
        let bytes = diode_formats::encode(Format::Columnar, std::slice::from_ref(entry))?;
        let length = u32::try_from(bytes.len()).context("a problem's timings take more than 4 GiB")?;
        let mut framed = length.to_le_bytes().to_vec();
        framed.extend(bytes);
        self.write(&framed).with_context(|| self.cannot())
    }

    fn cannot(&self) -> String {
        format!("cannot write {}", self.path.display())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(OpenOptions::new().create(true).append(true).open(&self.path)?),
        };
        file.write_all(bytes)?;
        file.sync_data()
    }

    /// Forgets everything: it is in the output now.
    pub(crate) fn clear(&mut self) -> anyhow::Result<()> {
        self.file = None;
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.path.display()))
            }
            _ => Ok(()),
        }
    }
}
