use std::collections::BTreeSet;

use anyhow::bail;
use futures_util::TryStreamExt as _;
use jiff::SignedDuration;

use crate::backend::Backend;
use crate::store::{NamedBlobs, Now};

/// A blob is stored before the row that names it, so a younger blob may still get its row.
const MIN_AGE: SignedDuration = SignedDuration::from_hours(1);

/// How many blobs were removed and kept.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub removed: usize,
    /// Blobs without a row that are younger than an hour.
    pub young: usize,
}

impl std::fmt::Display for Swept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { removed, young } = self;
        write!(f, "{removed} blobs that no row names removed; {young} younger than an hour kept")
    }
}

/// Removes blobs that no row names: the upload or training that stored such a blob ended before it wrote the
/// row. With `young`, also removes young blobs, which may still get a row.
pub async fn sweep(backend: &Backend, young: bool, now: Now) -> anyhow::Result<Swept> {
    // Blobs are listed before rows. So a row that is written meanwhile either names no listed blob, or is
    // read below.
    let there: Vec<_> = backend.blobs.list().try_collect().await?;
    let NamedBlobs { named, damaged } = backend.store.blobs().await?;
    if !damaged.is_empty() {
        bail!(
            "rows are damaged, so which blobs they name is not known; nothing was removed:\n{}",
            damaged.join("\n")
        );
    }
    let named: BTreeSet<_> = named.into_iter().map(|blob| (blob.kind, blob.digest)).collect();
    let mut swept = Swept::default();
    for (kind, digest, changed) in there {
        if named.contains(&(kind, digest.clone())) {
            continue;
        }
        if !young && now.0.duration_since(changed) < MIN_AGE {
            swept.young += 1;
        } else {
            backend.blobs.remove(kind, &digest).await?;
            swept.removed += 1;
        }
    }
    Ok(swept)
}
