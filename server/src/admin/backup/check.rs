use std::path::Path;

use diode_formats::size_and_digest;

use super::manifest::{Manifest, blobs, database_file};
use crate::store::NamedBlob;

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
