//! What the rest of the server may ask of the store about snapshots.

use async_trait::async_trait;
use diode_api::{Job, NewSnapshot, Reason, SnapshotFile, SnapshotName, SnapshotSummary, SnapshotUpload};
use diode_core::hardware::Hardware;
use diode_core::ids::{AccountId, Digest, HardwareSlug, ModelId, UploadId};

use super::error::StoreResult;
use super::types::{Now, Queued};
use crate::blobs::BlobKey;
use crate::solutions::StoredSolutions;

/// How many snapshots the server keeps at most, and how large they may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotLimits {
    /// The most snapshots of one hardware.
    pub number: u64,
    /// The most bytes of all files of all snapshots.
    pub bytes: u64,
}

/// Everything of a hardware that counts, as it was at one moment.
#[derive(Debug)]
pub struct Freezable {
    pub hardware: Hardware,
    /// The digest of everything that a snapshot would have.
    pub state: Digest,
    /// Grows when an upload of the hardware starts or stops counting.
    pub losses: u64,
    pub solutions: StoredSolutions,
    /// How many timings and failures each solution has, by number.
    pub sizes: Vec<(i64, u64)>,
    /// The uploads, in the order in which they arrived.
    pub uploads: Vec<(UploadId, SnapshotUpload)>,
    /// The newest snapshot, if it is of this state and its files exist.
    pub same: Option<SnapshotName>,
    /// The version that the next snapshot gets.
    pub next: u32,
    /// How many bytes all snapshots have.
    pub stored: u64,
}

/// A snapshot whose files are stored, but which is not added yet.
#[derive(Debug, Clone)]
pub struct Frozen {
    pub summary: SnapshotSummary,
    pub state: Digest,
    /// See [`Freezable::losses`].
    pub losses: u64,
    pub files: Vec<SnapshotFile>,
    pub uploads: Vec<UploadId>,
}

/// The result of adding a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    Yes,
    /// An upload in it no longer counts, or another snapshot has its version.
    Outdated,
    /// The hardware has as many snapshots as are allowed.
    TooMany,
    /// All snapshots have as many bytes as are allowed.
    Full,
}

/// A snapshot that the database has.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredSnapshot {
    pub summary: SnapshotSummary,
    /// Empty if the files were removed.
    pub files: Vec<SnapshotFile>,
}

/// What the server stores about snapshots. Every method is one transaction.
#[async_trait]
pub trait SnapshotStore: Send + Sync {
    /// Queues a job that an administrator asks for, and writes it to the log.
    async fn queue_snapshot(
        &self,
        job: &Job,
        request: &NewSnapshot,
        account: Option<&AccountId>,
        who: &str,
        now: Now,
    ) -> StoreResult<Queued>;

    /// What a snapshot would have now; `None` for unknown hardware.
    async fn freezable(&self, slug: &HardwareSlug) -> StoreResult<Option<Freezable>>;

    /// Adds a snapshot whose files are stored. If it is not added, no row names the files.
    async fn add_snapshot(&self, frozen: &Frozen, limits: &SnapshotLimits) -> StoreResult<Added>;

    /// The newest snapshots, of all hardware or of one, the newest first.
    async fn snapshots(
        &self,
        hardware: Option<&HardwareSlug>,
        limit: u32,
    ) -> StoreResult<Vec<SnapshotSummary>>;

    /// One snapshot; `None` if there is none with this name.
    async fn snapshot(&self, name: &SnapshotName) -> StoreResult<Option<StoredSnapshot>>;

    /// The models that were trained on exactly the uploads of a snapshot.
    async fn models_of_snapshot(&self, name: &SnapshotName) -> StoreResult<Vec<ModelId>>;

    /// Removes the files of a snapshot from its row, and writes it to the log. Returns the files; `None` if
    /// there is no such snapshot, or its files were removed before.
    async fn remove_snapshot(
        &self,
        name: &SnapshotName,
        why: &Reason,
        who: &str,
        now: Now,
    ) -> StoreResult<Option<Vec<BlobKey>>>;

    /// Whether a snapshot has a file with these bytes.
    async fn names_snapshot_file(&self, sha256: &Digest) -> StoreResult<bool>;
}
