use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context as _, bail};
use diode_core::ids::Digest;

use super::database::{self, DatabaseKind};
use diode_formats::size_and_digest;

use crate::admin::backup::{Manifest, SavedDatabase, blobs, database_file};
use crate::backend::Backend;
use crate::blobs::{BlobKind, Blobs};
use crate::store::{NamedBlob, NamedBlobs, Now};

/// The most rounds of saving. A further round begins only if an upload was deleted during the last one.
const ROUNDS: usize = 5;

/// Saves everything into a folder that is empty or does not exist. Servers and workers go on working. The
/// backup has everything that was acknowledged before the backup began.
///
/// A blob is stored before the row that names it. So all blobs of the rows in the saved database exist,
/// unless an upload was deleted meanwhile. In that case the database is saved once more.
pub async fn make(backend: &Backend, database_url: &str, folder: &Path) -> anyhow::Result<Manifest> {
    create(folder).with_context(|| format!("cannot use {}", folder.display()))?;
    let (kind, copies) = (DatabaseKind::of(database_url), blobs(folder)?);
    let file = database_file(folder, kind);
    for _ in 0..ROUNDS {
        let made_at = Now::read().rfc3339();
        let (before, _) = named(backend).await?;
        database::save(database_url, &file).await?;
        // The saved database may name blobs that came after the first list.
        let (after, damaged) = named(backend).await?;
        let all: BTreeMap<_, _> = before.into_iter().chain(after).collect();
        let (copied, lost) = copy(&backend.blobs, &copies, all).await?;
        let (there, _) = named(backend).await?;
        if lost.iter().all(|blob| there.contains_key(&(blob.kind, blob.digest.clone()))) {
            let (bytes, sha256) = size_and_digest(&file)?;
            let database = SavedDatabase { kind, bytes, sha256 };
            let manifest = Manifest { lost, damaged, ..Manifest::new(made_at, database, copied) };
            manifest.write(folder)?;
            return Ok(manifest);
        }
        fs::remove_file(&file)?;
    }
    bail!("uploads were deleted all the time, so no backup was complete; try again later")
}

/// Only its owner may read the folder, because the database has the data of accounts.
fn create(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if fs::read_dir(folder)?.next().is_some() {
                return Err(io::Error::other("it is not empty; name a new folder for each backup"));
            }
            #[cfg(unix)]
            fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
            Ok(())
        }
        other => other,
    }
}

type Named = BTreeMap<(BlobKind, Digest), u64>;

/// The blobs that rows name, and the rows that cannot be read.
async fn named(backend: &Backend) -> anyhow::Result<(Named, Vec<String>)> {
    let NamedBlobs { named, damaged } = backend.store.blobs().await?;
    Ok((named.into_iter().map(|blob| ((blob.kind, blob.digest), blob.bytes)).collect(), damaged))
}

/// Copies the blobs that the backup does not have yet. Returns the blobs that it has now, and the blobs that
/// are missing or do not match their names.
async fn copy(from: &Blobs, to: &Blobs, blobs: Named) -> anyhow::Result<(Vec<NamedBlob>, Vec<NamedBlob>)> {
    let (mut copied, mut lost) = (Vec::new(), Vec::new());
    for ((kind, digest), bytes) in blobs {
        let blob = NamedBlob { kind, digest, bytes };
        if to.size(kind, &blob.digest).await? == Some(bytes) {
            copied.push(blob);
        } else if from.size(kind, &blob.digest).await? != Some(bytes) {
            lost.push(blob);
        } else {
            match from.copy_to(to, kind, &blob.digest).await {
                Ok(true) => copied.push(blob),
                Ok(false) => lost.push(blob),
                // The blob was deleted a moment ago.
                Err(_) if from.size(kind, &blob.digest).await?.is_none() => lost.push(blob),
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok((copied, lost))
}
