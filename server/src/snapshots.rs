//! Datasets that no longer change, so that a paper or a model's card can name them.
//!
//! A snapshot is a set of files, stored under their digests, and a manifest with these digests. So the
//! manifest's digest fixes every byte. A snapshot is never replaced, and only an administrator removes one.

pub(crate) mod snapshot_routes;
pub(crate) mod snapshot_store;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Bytes;
use diode_api::{
    AbsentFormat, CHECKSUMS, DATA_LICENCE, MANIFEST, SnapshotFile, SnapshotManifest, SnapshotName,
    SnapshotState, SnapshotSummary,
};
use diode_core::Dataset;
use diode_core::ids::{Digest, HardwareSlug};
use diode_formats::{Format, FormatError, encode};

use crate::backend::Backend;
use crate::blobs::{BlobError, BlobKey, BlobKind};
use crate::store::{Added, Freezable, Frozen, Now, StoreError};
use crate::uploads::solutions::{Rebuilt, StoredSolutions, cut, rebuild};

/// How often a snapshot is made anew if, meanwhile, one of its uploads was withdrawn or one of its files was
/// removed.
const ATTEMPTS: usize = 3;

/// Grows by one when older programs can no longer read a new manifest.
const MANIFEST_VERSION: u32 = 1;

/// Why no snapshot was made.
#[derive(Debug)]
pub(crate) enum NotFrozen {
    /// The work was told to stop.
    Stopped,
    /// There is nothing to freeze, or no room for it.
    Refused(String),
    /// The database or the blobs failed. Trying again may help.
    Backend(anyhow::Error),
}

impl From<StoreError> for NotFrozen {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Damaged(damaged) => Self::Refused(damaged.to_string()),
            other => Self::Backend(other.into()),
        }
    }
}

impl From<BlobError> for NotFrozen {
    fn from(error: BlobError) -> Self {
        Self::Backend(error.into())
    }
}

/// Freezes everything of a hardware that counts. Returns the name of the new snapshot or, if nothing has
/// changed, of the newest snapshot. `tell` is called with the progress.
pub(crate) async fn freeze(
    backend: &Backend,
    slug: &HardwareSlug,
    stop: &AtomicBool,
    tell: &(dyn Fn(f64, String) + Send + Sync),
) -> Result<SnapshotName, NotFrozen> {
    for _ in 0..ATTEMPTS {
        let found = backend.store.freezable(slug).await?;
        let data = found.ok_or_else(|| NotFrozen::Refused(format!("no hardware `{slug}`")))?;
        if let Some(same) = data.same {
            return Ok(same);
        }
        if data.solutions.solutions.is_empty() {
            return Err(NotFrozen::Refused(format!(
                "nothing that counts has been measured on `{slug}` yet; upload a dataset first"
            )));
        }
        let mut making = Making { backend, stop, tell, room: room(backend, &data), stored: Vec::new() };
        let made = making.snapshot(data).await;
        let stored = making.stored;
        let added = match made {
            Ok(_) if stop.load(Ordering::Relaxed) => Err(NotFrozen::Stopped),
            Ok(frozen) => add(backend, &frozen).await.map(|added| (added, frozen.summary.name)),
            Err(error) => Err(error),
        };
        // Removes the files that no snapshot names: all files if nothing was added, else parts of a format that
        // is left out.
        backend.forget(stored).await?;
        let (added, name) = added?;
        match added {
            Added::Yes => return Ok(name),
            Added::TooMany => return Err(NotFrozen::Refused(too_many(backend))),
            Added::Full => return Err(NotFrozen::Refused(full(backend))),
            Added::Outdated => {}
        }
    }
    Err(NotFrozen::Backend(anyhow::anyhow!("uploads or files were gone each time before it was made")))
}

/// Adds a snapshot if all of its files still exist. Another worker may have made the same snapshot and given up,
/// for instance because its job was cancelled. Then it has removed the files that both workers stored.
async fn add(backend: &Backend, frozen: &Frozen) -> Result<Added, NotFrozen> {
    for file in &frozen.files {
        if backend.blobs.size(BlobKind::Snapshot, &file.sha256).await? != Some(file.bytes) {
            return Ok(Added::Outdated);
        }
    }
    Ok(backend.store.add_snapshot(frozen, &backend.snapshots).await?)
}

/// How many bytes the next snapshot may have.
fn room(backend: &Backend, data: &Freezable) -> u64 {
    backend.snapshots.bytes.saturating_sub(data.stored)
}

fn too_many(backend: &Backend) -> String {
    format!(
        "there are {} snapshots of it, the most that are kept; remove one (`diode-server admin remove-snapshot`) or \
         raise max_snapshots",
        backend.snapshots.number
    )
}

fn full(backend: &Backend) -> String {
    format!(
        "all snapshots together would take more than {} MB, the most that is kept; remove one (`diode-server admin \
         remove-snapshot`) or raise max_snapshots_mb",
        backend.snapshots.bytes / 1_000_000
    )
}

/// A snapshot that is being made.
struct Making<'a> {
    backend: &'a Backend,
    stop: &'a AtomicBool,
    tell: &'a (dyn Fn(f64, String) + Send + Sync),
    /// How many more bytes the snapshot may have.
    room: u64,
    /// The files that were stored for the snapshot.
    stored: Vec<BlobKey>,
}

/// What is counted in a dataset.
#[derive(Default)]
struct Counts {
    problems: BTreeSet<String>,
    timings: u64,
    failures: u64,
    left_out: u64,
}

impl Counts {
    fn add(&mut self, dataset: &Dataset, left_out: usize) {
        for solution in &dataset.solutions {
            self.problems.insert(solution.problem.canonical());
            self.timings += solution.configs.len() as u64;
            self.failures += solution.failures.len() as u64;
        }
        self.left_out += left_out as u64;
    }
}

impl Making<'_> {
    /// Stores the files of a snapshot.
    async fn snapshot(&mut self, data: Freezable) -> Result<Frozen, NotFrozen> {
        let name = SnapshotName { hardware: data.hardware.slug.clone(), version: data.next };
        let contributors: BTreeSet<_> =
            data.solutions.solutions.iter().map(|solution| &solution.contributor).collect();
        let contributors = contributors.len() as u64;
        let parts = parts(&data.sizes);
        let solutions = Arc::new(data.solutions);
        let mut counts = Counts { left_out: solutions.damaged.len() as u64, ..Counts::default() };
        let (mut files, mut absent) = (Vec::new(), Vec::<AbsentFormat>::new());
        let steps = (parts.len() * Format::ALL.len()) as f64;
        let mut step = 0_u32;
        for (part, numbers) in parts {
            let (stored, hardware) = (Arc::clone(&solutions), data.hardware.clone());
            let Rebuilt { dataset, left_out } =
                blocking(move || rebuild(hardware, part_of(&stored, &numbers))).await?;
            counts.add(&dataset, left_out.len());
            let dataset = Arc::new([dataset]);
            for format in Format::ALL {
                self.stop_if_asked()?;
                let file = match part {
                    None => format!("{name}{}", format.ending()),
                    Some(part) => format!("{name}-part-{part}{}", format.ending()),
                };
                (self.tell)(f64::from(step) / steps, format!("writing {file}"));
                step += 1;
                if absent.iter().any(|absent| absent.format == format.as_str()) {
                    continue;
                }
                let dataset = Arc::clone(&dataset);
                match blocking(move || encode(format, dataset.as_slice())).await? {
                    Ok(bytes) => files.push(self.store(file, format.as_str(), bytes).await?),
                    Err(error @ (FormatError::WouldLose { .. } | FormatError::TooLarge { .. })) => {
                        absent.push(AbsentFormat {
                            format: format.as_str().to_owned(),
                            reason: error.to_string(),
                        });
                    }
                    Err(other) => return Err(NotFrozen::Refused(other.to_string())),
                }
            }
        }
        // A format is either complete or left out.
        files.retain(|file| absent.iter().all(|absent| absent.format != file.format));
        let manifest = SnapshotManifest {
            manifest: MANIFEST_VERSION,
            name,
            created_at: Now::read().whole_second().rfc3339(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            licence: DATA_LICENCE.to_owned(),
            hardware: data.hardware,
            problems: counts.problems.len() as u64,
            timings: counts.timings,
            failures: counts.failures,
            contributors,
            left_out: counts.left_out,
            uploads: data.uploads.iter().map(|(_, upload)| upload.clone()).collect(),
            files,
            absent,
        };
        let summary = self.close(&manifest).await?;
        let (summary, mut files) = summary;
        files.extend(manifest.files);
        Ok(Frozen {
            summary,
            state: data.state,
            losses: data.losses,
            files,
            uploads: data.uploads.into_iter().map(|(id, _)| id).collect(),
        })
    }

    /// Stores the manifest and the checksums.
    async fn close(
        &mut self,
        manifest: &SnapshotManifest,
    ) -> Result<(SnapshotSummary, Vec<SnapshotFile>), NotFrozen> {
        let text = serde_json::to_vec_pretty(manifest).map_err(|error| NotFrozen::Backend(error.into()))?;
        let described = self.store(MANIFEST.to_owned(), "manifest", text).await?;
        let line = |file: &SnapshotFile| format!("{}  {}\n", file.sha256, file.name);
        let sums: String = manifest.files.iter().chain([&described]).map(line).collect();
        let sums = self.store(CHECKSUMS.to_owned(), "checksums", sums.into_bytes()).await?;
        let summary = SnapshotSummary {
            name: manifest.name.clone(),
            digest: described.sha256.clone(),
            hardware_name: manifest.hardware.name.clone(),
            created_at: manifest.created_at.clone(),
            licence: manifest.licence.clone(),
            problems: manifest.problems,
            timings: manifest.timings,
            failures: manifest.failures,
            contributors: manifest.contributors,
            uploads: manifest.uploads.len() as u64,
            bytes: manifest.files.iter().chain([&described, &sums]).map(|file| file.bytes).sum(),
            state: SnapshotState::Whole,
            reason: String::new(),
            withdrawn_uploads: 0,
        };
        Ok((summary, vec![described, sums]))
    }

    async fn store(&mut self, name: String, format: &str, bytes: Vec<u8>) -> Result<SnapshotFile, NotFrozen> {
        let file = SnapshotFile {
            name,
            format: format.to_owned(),
            bytes: bytes.len() as u64,
            sha256: Digest::of(&bytes),
        };
        // The limit is checked again when the snapshot is added. This earlier check keeps the disk from becoming
        // full.
        self.room =
            self.room.checked_sub(file.bytes).ok_or_else(|| NotFrozen::Refused(full(self.backend)))?;
        self.stored.push((BlobKind::Snapshot, file.sha256.clone()));
        self.backend.blobs.put(BlobKind::Snapshot, &file.sha256, Bytes::from(bytes)).await?;
        Ok(file)
    }

    fn stop_if_asked(&self) -> Result<(), NotFrozen> {
        if self.stop.load(Ordering::Relaxed) { Err(NotFrozen::Stopped) } else { Ok(()) }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, NotFrozen> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| NotFrozen::Refused(format!("it ended abruptly: {error}")))
}

/// The most timings and failures in one file. JSON takes some 650 bytes for each, all in memory while the
/// file is made.
const MAX_IN_PART: u64 = 1 << 19;

/// The solutions of each part, by their numbers. Parts are counted from 1; if there is only one part, it has no
/// number.
fn parts(sizes: &[(i64, u64)]) -> Vec<(Option<usize>, RangeInclusive<i64>)> {
    let cuts = cut(sizes, MAX_IN_PART);
    let is_whole = cuts.len() == 1;
    cuts.into_iter().zip(1..).map(|(part, at)| ((!is_whole).then_some(at), part)).collect()
}

/// The solutions with these numbers. Damaged rows belong to no part.
fn part_of(stored: &StoredSolutions, numbers: &RangeInclusive<i64>) -> StoredSolutions {
    let solutions: Vec<_> =
        stored.solutions.iter().filter(|solution| numbers.contains(&solution.number)).cloned().collect();
    // Many solutions share few lists, so every part has all lists.
    StoredSolutions {
        problems: stored.problems.clone(),
        config_lists: stored.config_lists.clone(),
        solutions,
        damaged: Vec::new(),
    }
}

#[cfg(test)]
mod freeze_parts_tests {
    use super::*;

    #[test]
    fn only_parts_of_several_have_numbers() {
        assert_eq!(parts(&[(3, 7), (9, 7)]), [(None, 3..=9)]);
        let large = MAX_IN_PART - 1;
        assert_eq!(parts(&[(3, large), (4, large), (9, 1)]), [(Some(1), 3..=3), (Some(2), 4..=9)]);
    }
}
