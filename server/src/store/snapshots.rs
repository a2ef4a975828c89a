//! Snapshots in domain words: what the rest of the server may ask of the store about them.

use async_trait::async_trait;
use diode_core::api::{
    Job, NewSnapshot, Reason, SnapshotFile, SnapshotName, SnapshotSummary, SnapshotUpload,
};
use diode_core::hardware::Hardware;
use diode_core::ids::{AccountId, Digest, HardwareSlug, ModelId, UploadId};

use super::error::StoreResult;
use super::types::{Now, Queued};
use crate::blobs::BlobKey;
use crate::solutions::StoredSolutions;

/// How much is kept at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotLimits {
    /// Snapshots of one hardware.
    pub number: u64,
    /// Bytes of all files of all snapshots.
    pub bytes: u64,
}

/// Everything that counts of a hardware, all of one moment.
#[derive(Debug)]
pub struct Freezable {
    pub hardware: Hardware,
    /// Stands for all that would be in a snapshot.
    pub state: Digest,
    /// Changes as soon as an upload in it counts in another way.
    pub losses: u64,
    pub solutions: StoredSolutions,
    /// How many timings and failures each solution has, by number.
    pub sizes: Vec<(i64, u64)>,
    /// By arrival.
    pub uploads: Vec<(UploadId, SnapshotUpload)>,
    /// The newest snapshot, if it is of this state and its files are there.
    pub same: Option<SnapshotName>,
    /// The version that the next snapshot has.
    pub next: u32,
    /// Bytes of all snapshots.
    pub stored: u64,
}

/// A snapshot whose files are stored.
#[derive(Debug, Clone)]
pub struct Frozen {
    pub summary: SnapshotSummary,
    pub state: Digest,
    /// As [`Freezable::losses`].
    pub losses: u64,
    pub files: Vec<SnapshotFile>,
    pub uploads: Vec<UploadId>,
}

/// What became of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    Yes,
    /// An upload in it does not count any more, or another snapshot has its version by now.
    Outdated,
    /// There are as many of this hardware as may be.
    TooMany,
    /// There are as many bytes as may be.
    Full,
}

/// A snapshot as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredSnapshot {
    pub summary: SnapshotSummary,
    /// Empty if they were removed.
    pub files: Vec<SnapshotFile>,
}

/// What the server remembers of snapshots. Every method is one transaction.
#[async_trait]
pub trait SnapshotStore: Send + Sync {
    /// Queues a job that an administrator asks for, and writes it down.
    async fn queue_snapshot(
        &self,
        job: &Job,
        request: &NewSnapshot,
        account: Option<&AccountId>,
        who: &str,
        now: Now,
    ) -> StoreResult<Queued>;

    /// What would be in a snapshot now; `None` for unknown hardware.
    async fn freezable(&self, slug: &HardwareSlug) -> StoreResult<Option<Freezable>>;

    /// Makes a snapshot known whose files are stored. Unless it is added, nobody names them.
    async fn add_snapshot(&self, frozen: &Frozen, limits: &SnapshotLimits) -> StoreResult<Added>;

    /// The newest snapshots, or those of one hardware, newest first.
    async fn snapshots(
        &self,
        hardware: Option<&HardwareSlug>,
        limit: u32,
    ) -> StoreResult<Vec<SnapshotSummary>>;

    /// One snapshot; `None` if there is none by this name.
    async fn snapshot(&self, name: &SnapshotName) -> StoreResult<Option<StoredSnapshot>>;

    /// The models that were trained on exactly the uploads of a snapshot.
    async fn models_of_snapshot(&self, name: &SnapshotName) -> StoreResult<Vec<ModelId>>;

    /// Takes the files off a snapshot, and writes it down. Returns them; `None` if there is no such snapshot,
    /// or they were removed before.
    async fn remove_snapshot(
        &self,
        name: &SnapshotName,
        why: &Reason,
        who: &str,
        now: Now,
    ) -> StoreResult<Option<Vec<BlobKey>>>;

    /// Whether a snapshot has a file of these bytes.
    async fn names_snapshot_file(&self, sha256: &Digest) -> StoreResult<bool>;
}
