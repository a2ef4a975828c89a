//! The folder beside an output that keeps the compiled kernels of an unfinished build.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use diode_core::ids::Digest;
use serde::{Deserialize, Serialize};

use super::compiler::Compiled;
use super::python::{TRITON, sources};

const LOCK: &str = "lock";
const STAMP: &str = "stamp";

pub(super) struct Parts {
    pub(super) folder: PathBuf,
    /// Locked while the build runs. Two builds in one folder would remove each other's files.
    _lock: File,
    log: File,
}

/// One line of the log of finished kernels.
#[derive(Serialize, Deserialize)]
struct Finished {
    key: String,
    compiled: Compiled,
    /// The digest of the binary. A power cut may have left the binary empty.
    digest: Option<Digest>,
}

impl Parts {
    /// Opens the folder. It goes on with an earlier build if architecture, Triton and sources are
    /// the same.
    pub(super) fn open(output: &Path, arch: &str) -> anyhow::Result<Self> {
        let mut name =
            output.file_name().with_context(|| format!("{}: expected a file", output.display()))?.to_owned();
        name.push(".parts");
        let folder = output.with_file_name(name);
        check_ours(&folder)?;
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let lock = lock(&folder)?;
        let stamp = Digest::of(format!("{arch} {TRITON} {}", sources()).as_bytes()).to_string();
        let stamp_file = folder.join(STAMP);
        let earlier = fs::read_to_string(&stamp_file).ok();
        if earlier.as_ref() != Some(&stamp) {
            if earlier.is_some() {
                say!("{}: of another architecture or version of diode, begun anew", folder.display());
            }
            clear(&folder).with_context(|| format!("cannot clear {}", folder.display()))?;
            diode_formats::write_atomically(&stamp_file, stamp.as_bytes())
                .with_context(|| format!("cannot write {}", stamp_file.display()))?;
        }
        let path = log_path(&folder);
        let log = OpenOptions::new().create(true).append(true).open(&path);
        let log = log.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { folder, _lock: lock, log })
    }

    /// The file that the compiler writes a kernel to.
    pub(super) fn binary(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{:.32}.bin", Digest::of(key.as_bytes()).to_string()))
    }

    /// Keeps the outcome of a kernel, unless another attempt could end otherwise.
    pub(super) fn keep(&self, key: &str, compiled: &Compiled) -> anyhow::Result<()> {
        let digest = match compiled {
            Compiled::Built(_) => Some(digest_of(&self.binary(key))?),
            Compiled::Failed(_) => None,
            Compiled::GivenUp => return Ok(()),
        };
        let finished = Finished { key: key.to_owned(), compiled: compiled.clone(), digest };
        let mut line = serde_json::to_string(&finished).context("cannot encode a result")?;
        line.push('\n');
        (&self.log)
            .write_all(line.as_bytes())
            .with_context(|| format!("cannot write in {}", self.folder.display()))
    }

    /// The kernels that an earlier build finished, if their files are whole. The last line of the
    /// log may be incomplete.
    pub(super) fn finished(&self) -> anyhow::Result<HashMap<String, Compiled>> {
        let path = log_path(&self.folder);
        let file = File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let lines = BufReader::new(file).lines().map_while(Result::ok);
        let whole = |done: &Finished| match done.compiled {
            Compiled::Built(_) => {
                done.digest.is_some() && digest_of(&self.binary(&done.key)).ok() == done.digest
            }
            Compiled::Failed(_) | Compiled::GivenUp => true,
        };
        Ok(lines
            .filter_map(|line| serde_json::from_str::<Finished>(&line).ok())
            .filter(whole)
            .map(|done| (done.key, done.compiled))
            .collect())
    }

    pub(super) fn remove(self) {
        // The pack is written already. If the folder stays, it only costs space.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Refuses a folder that no build has made, because opening it would clear it.
fn check_ours(folder: &Path) -> anyhow::Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", folder.display())),
    };
    let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    // A build locks the folder before it writes its stamp, so the lock may be alone there.
    if names.iter().any(|name| name == STAMP) || names.iter().all(|name| name == LOCK) {
        return Ok(());
    }
    bail!(
        "{}: it is there and not of a build, expected to keep unfinished kernels in it; choose another --out, or move it",
        folder.display()
    )
}

fn lock(folder: &Path) -> anyhow::Result<File> {
    let path = folder.join(LOCK);
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let file = file.with_context(|| format!("cannot write {}", path.display()))?;
    match file.try_lock() {
        // Some file systems have no locks. There, two processes are not kept apart.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!(
            "{}: another diode builds this pack; wait for its end or choose another --out",
            folder.display()
        ),
    }
}

fn clear(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else if entry.file_name() != LOCK {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn log_path(folder: &Path) -> PathBuf {
    folder.join("finished.jsonl")
}

fn digest_of(file: &Path) -> anyhow::Result<Digest> {
    Ok(Digest::of(&fs::read(file).with_context(|| format!("cannot read {}", file.display()))?))
}

#[cfg(test)]
mod tests {
    use super::super::compiler::Launch;
    use super::*;

    fn launch() -> Compiled {
        let symbol = "mm".to_owned();
        Compiled::Built(Launch {
            symbol,
            threads: 128,
            shared: 0,
            registers: 32,
            stack: 0,
            global_scratch: 0,
            copies: Vec::new(),
        })
    }

    #[test]
    fn only_whole_kernels_are_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("a.pack");
        let parts = Parts::open(&output, "sm_90").unwrap();
        for key in ["whole", "cut", "gone"] {
            diode_formats::write_atomically(&parts.binary(key), b"binary").unwrap();
            parts.keep(key, &launch()).unwrap();
        }
        parts.keep("bad", &Compiled::Failed("no".to_owned())).unwrap();
        parts.keep("killed", &Compiled::GivenUp).unwrap();
        diode_formats::write_atomically(&parts.binary("cut"), b"").unwrap();
        fs::remove_file(parts.binary("gone")).unwrap();
        drop(parts);

        let again = Parts::open(&output, "sm_90").unwrap().finished().unwrap();
        let mut keys: Vec<&str> = again.keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(keys, ["bad", "whole"]);
        assert!(Parts::open(&output, "gfx942").unwrap().finished().unwrap().is_empty());
    }

    #[test]
    fn a_folder_is_used_by_one_build_and_by_no_stranger() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("a.pack");
        let first = Parts::open(&output, "sm_90").unwrap();
        let error = Parts::open(&output, "sm_90").err().unwrap().to_string();
        assert!(error.contains("another diode builds this pack"), "{error}");
        first.remove();
        assert!(!folder.path().join("a.pack.parts").exists());

        let strangers = folder.path().join("b.pack.parts");
        fs::create_dir(&strangers).unwrap();
        diode_formats::write_atomically(&strangers.join("thesis"), b"precious").unwrap();
        let error = Parts::open(&folder.path().join("b.pack"), "sm_90").err().unwrap().to_string();
        assert!(error.contains("not of a build"), "{error}");
        assert_eq!(fs::read(strangers.join("thesis")).unwrap(), b"precious");
    }
}
