//! What the rest of the server may ask of the store about snapshots.

use diode_api::{SnapshotFile, SnapshotName, SnapshotSummary, SnapshotUpload};
use diode_core::hardware::Hardware;
use diode_core::ids::{Digest, UploadId};

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
