use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use futures_util::TryStreamExt as _;
use jiff::SignedDuration;

use crate::backend::Backend;
use crate::boards::consensus::{BoardEntry, Computed, ConfigCache, compute};
use crate::store::{NamedBlob, NamedBlobs, Now, Store, StoreError, StoreResult, View};

/// A stored board entry that differs from the entry that is computed from its view's solutions.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    pub view: View,
    pub stored: Option<BoardEntry>,
    /// `None` if there should be no entry.
    pub computed: Option<BoardEntry>,
}

/// The result of a verification.
#[derive(Debug, Default)]
pub struct Verified {
    pub entries: usize,
    /// Entries that wait to be recomputed. They are not compared.
    pub stale: usize,
    pub differences: Vec<Difference>,
    pub uploads: usize,
    /// Uploads that wait to be judged anew. They are not compared.
    pub to_judge: usize,
    /// Deviations, fences and owners that do not follow from the timings, in words.
    pub misjudged: Vec<String>,
    /// How many jobs, agents, leases and pieces of work were read.
    pub rows: usize,
    /// Rows that cannot be read, in words.
    pub damaged: Vec<String>,
    /// Blobs that a row names and that do not exist, or have another size.
    pub missing: Vec<NamedBlob>,
    /// Blobs whose bytes no longer have the digest in their name.
    pub changed: Vec<NamedBlob>,
    /// Blobs that no row names.
    pub orphans: usize,
}

impl Verified {
    /// Whether there is nothing to mend. Orphans do not count: they only take space.
    pub fn is_clean(&self) -> bool {
        self.differences.is_empty()
            && self.misjudged.is_empty()
            && self.damaged.is_empty()
            && self.missing.is_empty()
            && self.changed.is_empty()
    }
}

impl std::fmt::Display for Verified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for Difference { view, stored, computed } in &self.differences {
            writeln!(f, "{view}:\n  stored   {stored:?}\n  computed {computed:?}")?;
        }
        for words in self.misjudged.iter().chain(&self.damaged) {
            writeln!(f, "{words}")?;
        }
        for NamedBlob { kind, digest, bytes } in &self.missing {
            writeln!(f, "{kind:?} blob {digest} of {bytes} bytes is missing")?;
        }
        for NamedBlob { kind, digest, bytes } in &self.changed {
            writeln!(f, "{kind:?} blob {digest} of {bytes} bytes has other content than it was stored with")?;
        }
        let Self { entries, stale, uploads, to_judge, rows, orphans, .. } = self;
        write!(
            f,
            "{entries} entries recomputed, {} differ; {stale} entries wait to be recomputed; {uploads} uploads \
             judged, {} standings differ; {to_judge} uploads wait to be judged; {rows} rows of jobs and agents \
             read; {} damaged rows; {} missing blobs; {} changed ones; {orphans} blobs that nothing names",
            self.differences.len(),
            self.misjudged.len(),
            self.damaged.len(),
            self.missing.len(),
            self.changed.len()
        )
    }
}

/// Recomputes every board entry and every standing from the solutions, and reads every blob. Goes on after a
/// fault.
pub async fn verify(backend: &Backend) -> anyhow::Result<Verified> {
    let mut verified = verify_entries(backend.store.as_ref()).await?;
    let NamedBlobs { named, damaged } = backend.store.blobs().await?;
    for words in damaged {
        // The check of uploads may have found the same row.
        if !verified.damaged.contains(&words) {
            verified.damaged.push(words);
        }
    }
    for blob in &named {
        if backend.blobs.size(blob.kind, &blob.digest).await? != Some(blob.bytes) {
            verified.missing.push(blob.clone());
        } else if !backend.blobs.is_whole(blob.kind, &blob.digest).await? {
            verified.changed.push(blob.clone());
        }
    }
    let named: BTreeSet<_> = named.into_iter().map(|blob| (blob.kind, blob.digest)).collect();
    let there: Vec<_> = backend.blobs.list().try_collect().await?;
    verified.orphans =
        there.iter().filter(|(kind, digest, _)| !named.contains(&(*kind, digest.clone()))).count();
    Ok(verified)
}

/// The checks that read only the database.
pub async fn verify_entries(store: &Store) -> StoreResult<Verified> {
    let stale: BTreeSet<View> = store.stale_entries().await?.into_iter().collect();
    let mut verified = Verified { stale: stale.len(), ..Verified::default() };
    for view in store.views().await? {
        if stale.contains(&view) {
            continue;
        }
        verified.entries += 1;
        match (store.board_entry(&view).await, recompute(store, &view, &mut verified).await) {
            (Ok(stored), Ok(computed)) if stored == computed => {}
            (Ok(stored), Ok(computed)) => {
                verified.differences.push(Difference { view, stored, computed });
            }
            (Err(StoreError::Damaged(damaged)), _) | (_, Err(StoreError::Damaged(damaged))) => {
                verified.damaged.push(format!("{view}: {damaged}"));
            }
            (Err(error), _) | (_, Err(error)) => return Err(error),
        }
    }
    let checked = store.check_uploads().await?;
    verified.uploads = checked.uploads;
    verified.to_judge = checked.to_judge;
    verified.damaged.extend(checked.damaged);
    verified.misjudged.extend(checked.misjudged);
    let checked = store.check_rows().await?;
    verified.rows = checked.rows;
    verified.damaged.extend(checked.damaged);
    Ok(verified)
}

async fn recompute(store: &Store, view: &View, verified: &mut Verified) -> StoreResult<Option<BoardEntry>> {
    let Some(hardware) = store.hardware(&view.hardware).await? else { return Ok(None) };
    let stored = store.view_solutions(view).await?;
    let problem = stored.problems.get(&view.problem).cloned();
    let work = move || {
        let words = stored.decode().damaged.iter().chain(&stored.damaged).map(ToString::to_string).collect();
        let computed = |problem| compute(&stored, &mut ConfigCache::default(), &problem, &hardware);
        (problem.map(computed), words)
    };
    let (computed, words): (_, Vec<String>) = tokio::task::spawn_blocking(work).await?;
    verified.damaged.extend(words.into_iter().map(|words| format!("{view}: {words}")));
    let Some(Computed { entry, deviations }) = computed else { return Ok(None) };
    let deviations: BTreeMap<i64, f64> = deviations.iter().map(|one| (one.number, one.log_ratio)).collect();
    let stored = store.deviations(view).await?;
    if stored != deviations {
        verified.misjudged.push(format!("{view}: deviations stored {stored:?}, computed {deviations:?}"));
    }
    Ok(entry)
}

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
