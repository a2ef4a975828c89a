//! Makes a copy of everything that a server keeps, while the server works, and restores it.
//!
//! A backup is a folder. It holds the database in the form that the database's own tools write, the blobs, and
//! a manifest that names all of them with their digests. The manifest is written last, so a folder without a
//! manifest is no backup.

mod convert;
mod database;
mod make;

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use diode_core::ids::Digest;
use diode_formats::size_and_digest;
use futures_util::TryStreamExt as _;
use serde::{Deserialize, Serialize};

use crate::admin::backup::convert::Copied;
use crate::admin::backup::database::DatabaseKind;
use crate::admin::verify::{Verified, verify};
use crate::backend::Backend;
use crate::blobs::Blobs;
use crate::settings::Data;
use crate::store::{NamedBlob, keep_from_work, sqlite_file};

pub use crate::admin::backup::make::make;

/// A fault of a backup, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupFault(pub String);

impl std::fmt::Display for BackupFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads all of a backup and compares it with its manifest. Returns all faults, not only the first.
pub async fn check(folder: &Path) -> anyhow::Result<(Manifest, Vec<BackupFault>)> {
    let manifest = Manifest::read(folder)?;
    let mut problems = Vec::new();
    let (saved, file) = (&manifest.database, database_file(folder, manifest.database.kind));
    match size_and_digest(&file) {
        Err(error) => problems.push(BackupFault(format!("{}: {error}", file.display()))),
        Ok((bytes, digest)) if (bytes, &digest) != (saved.bytes, &saved.sha256) => {
            problems.push(BackupFault(format!(
                "{}: is not what was saved ({bytes} bytes, expected {})",
                file.display(),
                saved.bytes
            )))
        }
        Ok(_) => {}
    }
    let blobs = blobs(folder)?;
    for NamedBlob { kind, digest, bytes } in &manifest.blobs {
        let wrong = match blobs.size(*kind, digest).await? {
            None => Some("is missing"),
            Some(size) if size != *bytes => Some("has another size"),
            Some(_) if !blobs.is_whole(*kind, digest).await? => Some("has other bytes"),
            Some(_) => None,
        };
        problems.extend(wrong.map(|wrong| BackupFault(format!("{kind:?} blob {digest} {wrong}"))));
    }
    Ok((manifest, problems))
}

const NAME: &str = "manifest.json";
const BLOBS: &str = "blobs";

/// Grows by one when older programs can no longer read a new backup.
const VERSION: u32 = 1;

/// The manifest of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    version: u32,
    /// The version of the program that made the backup.
    pub program: String,
    pub made_at: String,
    pub database: SavedDatabase,
    pub blobs: Vec<NamedBlob>,
    /// Blobs that a row names and that the server had lost, or that had other bytes.
    #[serde(default)]
    pub lost: Vec<NamedBlob>,
    /// Rows that could not be read. The saved database has them. Which blobs they name is not known, so these blobs
    /// may be missing from the backup.
    #[serde(default)]
    pub damaged: Vec<String>,
}

impl std::fmt::Display for Manifest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { made_at, database, blobs, lost, damaged, .. } = self;
        for NamedBlob { kind, digest, bytes } in lost {
            writeln!(f, "{kind:?} blob {digest} of {bytes} bytes was lost or damaged on the server")?;
        }
        for words in damaged {
            writeln!(f, "a row was damaged on the server, and its blob may not be saved: {words}")?;
        }
        let bytes: u64 = blobs.iter().map(|blob| blob.bytes).sum();
        write!(
            f,
            "the backup of {made_at}: the {} database ({} bytes) and {} blobs ({bytes} bytes); the server lacked {} \
             blobs, and {} of its rows were damaged",
            database.kind,
            database.bytes,
            blobs.len(),
            lost.len(),
            damaged.len()
        )
    }
}

/// The file with the saved database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedDatabase {
    pub kind: DatabaseKind,
    pub bytes: u64,
    pub sha256: Digest,
}

impl Manifest {
    fn new(made_at: String, database: SavedDatabase, blobs: Vec<NamedBlob>) -> Self {
        let program = env!("CARGO_PKG_VERSION").to_owned();
        Self { version: VERSION, program, made_at, database, blobs, lost: Vec::new(), damaged: Vec::new() }
    }

    /// Whether the server had everything that it should have when the backup was made.
    pub fn is_complete(&self) -> bool {
        self.lost.is_empty() && self.damaged.is_empty()
    }

    /// Writes the manifest durably. Everything that it names must be durable already.
    fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let path = folder.join(NAME);
        let text = serde_json::to_vec_pretty(self)?;
        diode_formats::write_atomically(&path, &text)
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads the manifest of a backup.
    fn read(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join(NAME);
        let text = match std::fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(
                "{}: there is no {NAME}, expected the folder of a backup that was made to its end",
                folder.display()
            ),
            other => other.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let manifest: Self = serde_json::from_slice(&text)
            .with_context(|| format!("{}: not the manifest of a backup", path.display()))?;
        if manifest.version != VERSION {
            bail!(
                "{}: got version {}, expected {VERSION}; a newer diode-server made it",
                path.display(),
                manifest.version
            );
        }
        Ok(manifest)
    }
}

/// The blobs of a backup.
fn blobs(folder: &Path) -> anyhow::Result<Blobs> {
    Ok(Blobs::in_folder(&folder.join(BLOBS))?)
}

/// The file with the database of a backup.
fn database_file(folder: &Path, kind: DatabaseKind) -> PathBuf {
    folder.join(kind.file_name())
}

/// How many faults are printed. A broken disk may have thousands.
const NAMED: usize = 20;

/// What was restored, and the result of verifying it.
#[derive(Debug)]
pub struct Restored {
    pub manifest: Manifest,
    pub verified: Verified,
}

impl std::fmt::Display for Restored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Manifest { made_at, blobs, .. } = &self.manifest;
        write!(f, "{}\nrestored the backup of {made_at} with {} blobs", self.verified, blobs.len())
    }
}

/// Restores a backup to the places in the settings, if they are empty. Then verifies it.
pub async fn restore(data: &Data, folder: &Path) -> anyhow::Result<Restored> {
    let (manifest, problems) = check(folder).await?;
    if !problems.is_empty() {
        let words: Vec<String> = problems.iter().take(NAMED).map(ToString::to_string).collect();
        bail!("the backup is damaged in {} places:\n{}", problems.len(), words.join("\n"));
    }
    let (saved, url) = (manifest.database.kind, &data.database_url);
    if (saved, DatabaseKind::of(url)) == (DatabaseKind::Postgres, DatabaseKind::Sqlite) {
        bail!(
            "the backup is of {saved}, and the database to restore to is SQLite; name a Postgres one by --database-url"
        );
    }
    database::refuse_used(url).await?;
    let place = data.place()?;
    let (from, to) = (blobs(folder)?, Blobs::open(&place).await?);
    if to.list().try_next().await?.is_some() {
        bail!("{}: there are blobs already; move them away first", place);
    }
    for blob in &manifest.blobs {
        if !from.copy_to(&to, blob.kind, &blob.digest).await? {
            bail!("{:?} blob {} has changed since it was checked", blob.kind, blob.digest);
        }
    }
    // The database comes last: until it is there, no server can start on a part of the backup.
    let file = database_file(folder, saved);
    if saved == DatabaseKind::of(url) {
        database::load(url, &file).await?;
    } else {
        convert::copy(&file, true, url).await?;
    }
    Ok(Restored { manifest, verified: verified(data).await? })
}

async fn verified(data: &Data) -> anyhow::Result<Verified> {
    let backend = Backend::open(data).await?;
    let verified = verify(&backend).await;
    backend.store.close().await;
    verified
}

/// A database that was moved to Postgres, and the result of verifying it.
#[derive(Debug)]
pub struct Moved {
    copied: Copied,
    pub verified: Verified,
}

impl std::fmt::Display for Moved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Copied { tables, rows } = self.copied;
        write!(
            f,
            "{}\ncopied {rows} rows of {tables} tables; now let database_url name the new database",
            self.verified
        )
    }
}

/// Copies the SQLite database of the settings into an empty Postgres database, and verifies it with the blobs, which stay
/// where they are. The SQLite file stays, too. No server may work on it any more: what it takes later is not copied.
pub async fn move_to_postgres(data: &Data, to: &str) -> anyhow::Result<Moved> {
    let file = sqlite_file(&data.database_url).context(
        "the database of the settings is Postgres already, expected SQLite; to copy a Postgres database, use backup and restore-backup",
    )?;
    if DatabaseKind::of(to) != DatabaseKind::Postgres {
        bail!("got a database that is not Postgres, expected postgres://USER@HOST/DATABASE");
    }
    let Some(_kept) = keep_from_work(&file)? else {
        bail!(
            "a server or a worker works on {}; stop it first, because what it takes later would be lost",
            file.display()
        );
    };
    // Says in words what is wrong with the file, and brings its tables up to date.
    Backend::open_existing(data).await?.store.close().await;
    database::refuse_used(to).await?;
    let copied = convert::copy(&file, false, to).await?;
    let moved = Data { database_url: to.to_owned(), ..data.clone() };
    Ok(Moved { copied, verified: verified(&moved).await? })
}

#[cfg(test)]
mod manifest_tests {
    use super::*;

    #[test]
    fn a_folder_without_a_manifest_or_with_a_newer_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = Manifest::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("no manifest.json"), "{error}");
        let database = SavedDatabase { kind: DatabaseKind::Sqlite, bytes: 1, sha256: Digest::of(b"x") };
        let manifest = Manifest::new("2026".to_owned(), database, Vec::new());
        manifest.write(folder.path()).unwrap();
        assert_eq!(Manifest::read(folder.path()).unwrap(), manifest);
        Manifest { version: 2, ..manifest }.write(folder.path()).unwrap();
        let error = Manifest::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("got version 2"), "{error}");
    }
}
