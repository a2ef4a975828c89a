use std::path::Path;

use anyhow::bail;
use futures_util::TryStreamExt as _;

use super::check::check;
use super::database::{self, DatabaseKind};
use super::manifest::{Manifest, blobs, database_file};
use crate::admin::verify::{Verified, verify};
use crate::backend::Backend;
use crate::blobs::Blobs;
use crate::settings::Data;

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
    if saved != DatabaseKind::of(url) {
        bail!(
            "the backup is of {saved}, and the database to restore to is {}; name another by --database-url",
            DatabaseKind::of(url)
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
    database::load(url, &database_file(folder, saved)).await?;
    let backend = Backend::open(data).await?;
    let verified = verify(&backend).await;
    backend.store.close().await;
    Ok(Restored { manifest, verified: verified? })
}
