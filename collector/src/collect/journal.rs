//! Keeps what was measured since the file was last saved. So a collection that is killed loses only the
//! problems in hand.
//!
//! The journal is `<output>.journal`, beside the output. It holds for each problem a length in four
//! bytes and a columnar file of that problem alone. Saving the output empties the journal, and the end
//! of the collection removes it. It is locked, so that no two collections share an output.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use diode_core::Dataset;
use diode_formats::Format;
use diode_formats::limits::MAX_OBJECT;

use crate::output;

/// The most bytes of a journal, far more than is measured between two savings.
const LONGEST: u64 = 1 << 30;

pub(crate) struct Journal {
    path: PathBuf,
    file: Option<File>,
}

impl Journal {
    /// The journal of an output. No file is created yet.
    pub(crate) fn beside(output: &Path) -> Self {
        let mut path = output.as_os_str().to_owned();
        path.push(".journal");
        Self { path: path.into(), file: None }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Fails if something other than a regular file has the journal's name. Then it is neither read nor
    /// emptied.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if self.path.symlink_metadata().is_ok_and(|there| !there.is_file()) {
            bail!(
                "{}: exists and is not a regular file, expected a collection's journal; move it away, or choose \
                 another --output",
                self.path.display()
            );
        }
        Ok(())
    }

    /// Fails if another process writes the output now.
    pub(crate) fn check_is_free(&self) -> anyhow::Result<()> {
        self.check()?;
        let Ok(file) = File::open(&self.path) else { return Ok(()) };
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Err(self.is_in_use()),
            Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
        }
    }

    fn is_in_use(&self) -> anyhow::Error {
        let path = self.path.display();
        anyhow::anyhow!(
            "{path}: another diode writes this; wait for its end or choose another --output, for an agent another --home"
        )
    }

    /// Whether it holds nothing.
    pub(crate) fn is_empty(&self) -> bool {
        fs::metadata(&self.path).map_or(true, |file| file.len() == 0)
    }

    /// What an earlier collection left behind, in the order in which it was measured. A damaged journal
    /// is also copied to another name.
    pub(crate) fn entries(&self) -> anyhow::Result<Vec<Dataset>> {
        let path = self.path.display();
        let mut bytes = Vec::new();
        let file = File::open(&self.path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes));
        file.with_context(|| format!("cannot read {path}"))?;
        if bytes.len() as u64 > LONGEST {
            bail!(
                "{path}: expected a journal of at most {LONGEST} bytes; move it away, and the collection goes on without it"
            );
        }
        let (entries, is_whole) = read_entries(&bytes);
        if !is_whole {
            let kept = self.keep_damaged(&bytes).with_context(|| format!("cannot copy {path}"))?;
            say!(
                "note: {path} is damaged, {} in it can be read; {} keeps it as it was",
                output::count(entries.len(), "problem"),
                kept.display()
            );
        }
        Ok(entries)
    }

    /// Opens the journal for this process alone. If the folder cannot be written to, this fails now and
    /// not after hours of measuring.
    pub(crate) fn open(&mut self) -> anyhow::Result<()> {
        const TRIES: u32 = 100;
        for _ in 0..TRIES {
            self.check()?;
            let options = OpenOptions::new().create(true).append(true).open(&self.path);
            let file = options.with_context(|| self.cannot())?;
            match file.try_lock() {
                // Some file systems have no locks. There, two processes are not kept apart.
                Ok(()) | Err(TryLockError::Error(_)) => {}
                Err(TryLockError::WouldBlock) => return Err(self.is_in_use()),
            }
            // A collection that just ended may have removed the file between opening and locking.
            if self.leads_to(&file) {
                self.file = Some(file);
                return Ok(());
            }
        }
        bail!("{}: it is replaced again and again; choose another --output", self.path.display())
    }

    /// Whether the journal's name still leads to this file.
    #[cfg(unix)]
    fn leads_to(&self, file: &File) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let identity = |file: fs::Metadata| (file.dev(), file.ino());
        fs::metadata(&self.path).ok().map(identity) == file.metadata().ok().map(identity)
    }

    #[cfg(not(unix))]
    fn leads_to(&self, _: &File) -> bool {
        true
    }

    /// Copies a damaged journal to a name that is not taken yet.
    fn keep_damaged(&self, bytes: &[u8]) -> io::Result<PathBuf> {
        for number in 1.. {
            let mut kept = self.path.clone().into_os_string();
            kept.push(".damaged");
            if number > 1 {
                kept.push(format!("-{number}"));
            }
            match OpenOptions::new().create_new(true).write(true).open(&kept) {
                Ok(mut file) => {
                    file.write_all(bytes)?;
                    file.sync_data()?;
                    return Ok(kept.into());
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("every name is taken"))
    }

    /// Adds a dataset of one problem. It is on disk when this returns.
    pub(crate) fn append(&mut self, entry: &Dataset) -> anyhow::Result<()> {
        let bytes = write_entry(entry)?;
        self.write(&bytes).with_context(|| self.cannot())
    }

    fn cannot(&self) -> String {
        format!("cannot write {}", self.path.display())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Err(io::Error::other("it is not open")) };
        file.write_all(bytes)?;
        file.sync_data()
    }

    /// Empties the journal, because the output now holds everything.
    pub(crate) fn clear(&mut self) -> anyhow::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.set_len(0).with_context(|| format!("cannot write {}", self.path.display()))
    }
}

impl Drop for Journal {
    /// Removes the file if it holds nothing.
    fn drop(&mut self) {
        if self.file.as_ref().is_some_and(|file| self.leads_to(file)) && self.is_empty() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The most bytes of one entry: as many as one problem of a columnar file may take.
const MAX_ENTRY: u64 = MAX_OBJECT;
/// How many bytes hold an entry's length.
const LENGTH: usize = 4;
/// The first bytes of an entry's columnar file. Every zstd frame begins with them.
const START: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();

/// The bytes of an entry, as they stand in the journal.
fn write_entry(entry: &Dataset) -> anyhow::Result<Vec<u8>> {
    let bytes = diode_formats::encode(Format::Columnar, std::slice::from_ref(entry))?;
    let length = u32::try_from(bytes.len()).ok().filter(|&length| u64::from(length) <= MAX_ENTRY);
    let length = length.with_context(|| {
        format!("a problem's timings take {} bytes, expected at most {MAX_ENTRY}", bytes.len())
    })?;
    Ok([&length.to_le_bytes(), &bytes[..]].concat())
}

/// Reads the entries of a journal, and says whether the journal is undamaged. After a damaged entry it looks for
/// the next one.
fn read_entries(mut bytes: &[u8]) -> (Vec<Dataset>, bool) {
    let (mut entries, mut is_whole) = (Vec::new(), true);
    while !bytes.is_empty() {
        let framed = framed(bytes);
        if let Some((entry, rest)) =
            framed.and_then(|(entry, rest)| Some((diode_formats::decode(entry).ok()?, rest)))
        {
            entries.extend(entry.datasets);
            bytes = rest;
        } else if let Some(next) = next_start(bytes) {
            is_whole = false;
            bytes = &bytes[next..];
        } else {
            // A process that was killed while it wrote leaves an incomplete last entry. That is no damage.
            is_whole &= framed.is_none() && !entries.is_empty();
            break;
        }
    }
    (entries, is_whole)
}

/// Splits off as many bytes as the length at the beginning says. `None` if there are fewer.
fn framed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

/// Where the next entry may begin, at least one byte further on.
fn next_start(bytes: &[u8]) -> Option<usize> {
    let start = bytes.windows(START.len()).skip(1 + LENGTH).position(|window| window == START)?;
    Some(1 + start)
}

#[cfg(test)]
mod tests {
    use diode_core::hardware::Hardware;
    use diode_core::{
        ConfigDictionary, DType, Method, Op, Problem, ProblemFields, Provenance, Solution, TimeColumn,
    };

    use super::*;

    #[test]
    fn what_is_damaged_is_kept_beside_what_was_before() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::beside(&folder.path().join("set.msgpack.zst"));
        for damage in ["first", "second"] {
            diode_formats::write_atomically(journal.path(), damage.as_bytes()).unwrap();
            assert_eq!(journal.entries().unwrap(), []);
        }
        let kept = |end: &str| {
            fs::read_to_string(folder.path().join(format!("set.msgpack.zst.journal.damaged{end}")))
        };
        assert_eq!((kept("").unwrap(), kept("-2").unwrap()), ("first".to_owned(), "second".to_owned()));
    }

    #[test]
    fn a_journal_that_its_holder_removes_is_not_taken_for_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("set.msgpack.zst");
        let (mut first, mut second, mut third) =
            (Journal::beside(&output), Journal::beside(&output), Journal::beside(&output));
        first.open().unwrap();
        fs::remove_file(first.path()).unwrap();
        second.open().unwrap();
        drop(first);
        assert!(
            third.open().unwrap_err().to_string().contains("another diode"),
            "the second one's is there still"
        );
    }

    fn entry(m: u64) -> Dataset {
        let problem = Problem::new(ProblemFields::plain(Op::Mm, 1, m, 16, 16, DType::Float32)).unwrap();
        let solution = Solution {
            problem,
            method: Method::MEDIAN_COLD_EVENT,
            configs: Vec::new(),
            times: TimeColumn::Nanos(Vec::new()),
            minimum_ns: None,
            spread_ns: None,
            repeats: None,
            failures: Vec::new(),
        };
        Dataset {
            hardware: Hardware::from_name("NVIDIA H200").unwrap(),
            provenance: Provenance::default(),
            configs: ConfigDictionary::default(),
            solutions: vec![solution],
        }
    }

    #[test]
    fn a_damaged_byte_costs_no_entry_but_its_own() {
        let entries = [entry(1), entry(2), entry(3)];
        let framed = entries.each_ref().map(|entry| write_entry(entry).unwrap());
        assert_eq!(read_entries(&framed.concat()), (entries.to_vec(), true));
        for damaged in 0..framed.len() {
            let others: Vec<&Dataset> =
                (0..entries.len()).filter(|&place| place != damaged).map(|place| &entries[place]).collect();
            for place in 0..framed[damaged].len() {
                let mut bytes = framed.clone();
                bytes[damaged][place] ^= 0x10;
                let (found, is_whole) = read_entries(&bytes.concat());
                assert!(others.iter().all(|other| found.contains(other)), "entry {damaged}, byte {place}");
                // Damage can increase the length that the last entry states. The entry then looks incomplete, as
                // after a kill, and not damaged.
                if damaged + 1 < framed.len() || place >= LENGTH {
                    assert_eq!(is_whole, found.len() == entries.len(), "entry {damaged}, byte {place}");
                }
            }
        }
    }

    #[test]
    fn an_entry_that_breaks_off_is_no_damage_where_others_are_whole() {
        let entries = [entry(1), entry(2)];
        let framed = entries.each_ref().map(|entry| write_entry(entry).unwrap());
        let bytes = framed.concat();
        for length in framed[0].len()..bytes.len() {
            assert_eq!(read_entries(&bytes[..length]), (vec![entries[0].clone()], true), "{length} bytes");
        }
        for length in 1..framed[0].len() {
            assert_eq!(read_entries(&bytes[..length]), (vec![], false), "{length} bytes");
        }
    }
}
