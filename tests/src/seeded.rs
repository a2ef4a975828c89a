//! A database with the shipped measurements and models.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, bail};
use tempfile::TempDir;

use crate::programs::{Server, program};

/// A new folder with the database that `diode-server admin seed trained_models` makes.
///
/// Every test has its own process, and seeding takes longer than a test. So the first test seeds a
/// shared folder, the others wait for it, and each test gets a copy.
pub fn seeded() -> anyhow::Result<TempDir> {
    let server = program("diode-server")?;
    let shared = server.with_file_name("seeded-for-tests");
    let lock = File::create(shared.with_extension("lock"))?;
    lock.lock()?;
    let trained = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trained_models").canonicalize()?;
    let of = newest(&server)?.max(newest(&trained)?);
    if !is_younger(&shared.join(DONE), of) {
        if shared.exists() {
            fs::remove_dir_all(&shared)?;
        }
        fs::create_dir(&shared)?;
        seed(&trained, &shared)?;
        File::create(shared.join(DONE))?;
    }
    let copy = tempfile::tempdir()?;
    copy_folder(&shared, copy.path())?;
    Ok(copy)
}

/// A server on a seeded folder. The server needs the folder, so keep both.
pub fn seeded_server() -> anyhow::Result<(TempDir, Server)> {
    let folder = seeded()?;
    let server = Server::start(folder.path())?;
    Ok((folder, server))
}

/// This file is made last: a folder without it holds an incomplete database.
const DONE: &str = "done";

/// Seeds the database in `folder` with the measurements and models in `trained`.
pub fn seed(trained: &Path, folder: &Path) -> anyhow::Result<()> {
    let mut seed = Command::new(program("diode-server")?);
    seed.current_dir(folder).args(["admin", "seed"]).arg(trained).env_remove("DATABASE_URL");
    let status = seed.status().context("cannot start diode-server")?;
    if status.success() { Ok(()) } else { bail!("`diode-server admin seed` failed: {status}") }
}

fn is_younger(file: &Path, than: SystemTime) -> bool {
    file.metadata().and_then(|about| about.modified()).is_ok_and(|made| made > than)
}

/// When a file was last written. For a folder, the latest such time among its files.
fn newest(path: &Path) -> anyhow::Result<SystemTime> {
    let mut newest = path.metadata()?.modified()?;
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            newest = newest.max(self::newest(&entry?.path())?);
        }
    }
    Ok(newest)
}

fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target: PathBuf = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&target)?;
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
