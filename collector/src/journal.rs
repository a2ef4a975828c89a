//! What was measured since the file was last saved, so that a collection that is
//! killed loses the problem in flight and no more.
//!
//! Beside the output stands `<output>.journal`: for each problem its length in four
//! bytes and a columnar file of it alone. Saving the output empties the journal, and its
//! end removes it. It is locked, so that two collections never share an output.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use diode_core::Dataset;
use diode_formats::Format;
use diode_formats::limits::MAX_OBJECT;

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
    /// A file with more in it than can be read is kept under another name too.
    pub(crate) fn entries(&self) -> anyhow::Result<Vec<Dataset>> {
        let path = self.path.display();
        let unreadable = || format!("cannot read {path}");
        let mut file = BufReader::new(File::open(&self.path).with_context(unreadable)?);
        let mut entries = Vec::new();
        let end = loop {
            match next(&mut file).with_context(unreadable)? {
                Next::Entry(bytes) => match diode_formats::decode(&bytes) {
                    Ok(entry) => entries.extend(entry.datasets),
                    Err(_) => break Next::Damaged,
                },
                end => break end,
            }
        };
        // An entry that breaks off at the end is what a process leaves that is killed while it writes.
        let is_usual = match end {
            Next::Nothing => true,
            Next::BreaksOff => !entries.is_empty(),
            Next::Entry(_) | Next::Damaged => false,
        };
        if !is_usual {
            let mut kept = self.path.clone().into_os_string();
            kept.push(".damaged");
            fs::copy(&self.path, &kept).with_context(|| format!("cannot copy {path}"))?;
            say!(
                "note: {path} is damaged after {} problems; {} keeps it as it was",
                entries.len(),
                Path::new(&kept).display()
            );
        }
        Ok(entries)
    }

    /// Opens the journal for this process alone, and finds out now whether the folder can
    /// be written to, not after hours of measuring.
    pub(crate) fn open(&mut self) -> anyhow::Result<()> {
        let options = OpenOptions::new().create(true).append(true).open(&self.path);
        let file = options.with_context(|| self.cannot())?;
        match file.try_lock() {
            Ok(()) => self.file = Some(file),
            Err(TryLockError::WouldBlock) => bail!(
                "{}: another diode collects into this output; wait for its end or choose another --output",
                self.path.display()
            ),
            // Some file systems know no locks; there nobody is told apart.
            Err(TryLockError::Error(_)) => self.file = Some(file),
        }
        Ok(())
    }

    /// Adds a dataset of one problem. It is on disk when this returns.
    pub(crate) fn append(&mut self, entry: &Dataset) -> anyhow::Result<()> {
        let bytes = diode_formats::encode(Format::Columnar, std::slice::from_ref(entry))?;
        let length =
            u32::try_from(bytes.len()).ok().filter(|&length| u64::from(length) <= MAX_ENTRY).with_context(
                || format!("a problem's timings take {} bytes, expected at most {MAX_ENTRY}", bytes.len()),
            )?;
        let mut framed = length.to_le_bytes().to_vec();
        framed.extend(bytes);
        self.write(&framed).with_context(|| self.cannot())
    }

    fn cannot(&self) -> String {
        format!("cannot write {}", self.path.display())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Err(io::Error::other("it is not open")) };
        file.write_all(bytes)?;
        file.sync_data()
    }

    /// Forgets everything: it is in the output now.
    pub(crate) fn clear(&mut self) -> anyhow::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.set_len(0).with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// What stands next in a journal.
enum Next {
    Entry(Vec<u8>),
    Nothing,
    BreaksOff,
    Damaged,
}

/// Bytes of one entry: the most that a problem of a columnar file may take.
const MAX_ENTRY: u64 = MAX_OBJECT;

fn next(file: &mut impl Read) -> io::Result<Next> {
    let mut length = Vec::new();
    file.take(4).read_to_end(&mut length)?;
    let Ok(length) = <[u8; 4]>::try_from(length.as_slice()) else {
        return Ok(if length.is_empty() { Next::Nothing } else { Next::BreaksOff });
    };
    let length = u64::from(u32::from_le_bytes(length));
    if length > MAX_ENTRY {
        return Ok(Next::Damaged);
    }
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(if bytes.len() as u64 == length { Next::Entry(bytes) } else { Next::BreaksOff })
}

impl Drop for Journal {
    /// What holds nothing need not lie around.
    fn drop(&mut self) {
        if self.file.is_some() && self.is_empty() {
            let _ = fs::remove_file(&self.path);
        }
    }
}
