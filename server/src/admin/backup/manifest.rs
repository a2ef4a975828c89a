use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use diode_core::ids::Digest;
use serde::{Deserialize, Serialize};

use super::database::DatabaseKind;
use crate::blobs::Blobs;
use crate::store::NamedBlob;

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
}

/// The file with the saved database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedDatabase {
    pub kind: DatabaseKind,
    pub bytes: u64,
    pub sha256: Digest,
}

impl Manifest {
    pub(super) fn new(made_at: String, database: SavedDatabase, blobs: Vec<NamedBlob>) -> Self {
        Self { version: VERSION, program: env!("CARGO_PKG_VERSION").to_owned(), made_at, database, blobs }
    }

    /// Writes the manifest durably. Everything that it names must be durable already.
    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let path = folder.join(NAME);
        let text = serde_json::to_vec_pretty(self)?;
        diode_formats::write_atomically(&path, &text)
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads the manifest of a backup.
    pub(super) fn read(folder: &Path) -> anyhow::Result<Self> {
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
pub(super) fn blobs(folder: &Path) -> anyhow::Result<Blobs> {
    Ok(Blobs::in_folder(&folder.join(BLOBS))?)
}

/// The file with the database of a backup.
pub(super) fn database_file(folder: &Path, kind: DatabaseKind) -> PathBuf {
    folder.join(kind.file_name())
}

#[cfg(test)]
mod tests {
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
