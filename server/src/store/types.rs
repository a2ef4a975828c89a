//! The types that the store accepts and returns.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use diode_api::{HardwareReceipt, Job, ProblemFilter, SnapshotName, UploadLicence};
use diode_core::hardware::Hardware;
use diode_core::ids::{AccountId, AgentId, Digest, HardwareSlug, LeaseId, ModelId, ProblemId, UploadId};
use diode_core::{Method, Problem};

use serde::{Deserialize, Serialize};

use super::cursor::{Cursor, Ranking};
use crate::blobs::BlobKind;
use crate::solutions::StoredSolutions;

/// How long a claim of a job lasts unless its worker reports. It is longer than a write may wait for other
/// writes.
pub const LEASE: Duration = Duration::from_secs(90);

/// How many jobs may wait: some hours of work for one worker.
pub const MAX_WAITING_JOBS: u32 = 20;

/// How many jobs of one account may wait or run, so that other accounts get their turn.
pub const MAX_OWN_JOBS: u32 = 5;

/// How long a job waits after a failure that may pass. The time doubles after each further failure.
pub const BACK_OFF: Duration = Duration::from_secs(30);

/// A job is given up once this many of its workers have died, because the job itself may be the cause.
pub const MAX_ATTEMPTS: u64 = 3;

/// The subject of one row of a leaderboard.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct View {
    pub hardware: HardwareSlug,
    pub problem: ProblemId,
    pub method: Method,
}

impl std::fmt::Display for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} problem {} method {}", self.hardware, self.problem, self.method)
    }
}

/// A new solution.
#[derive(Debug, Clone)]
pub struct NewSolution {
    pub digest: Digest,
    pub hardware: HardwareSlug,
    pub problem: ProblemId,
    pub method: Method,
    pub config_list: Digest,
    pub columns: Vec<u8>,
    pub timings: u64,
    pub failures: u64,
    pub best_ns: Option<f64>,
}

/// Hardware as the store has it.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownHardware {
    pub hardware: Hardware,
    /// Whether an administrator has confirmed the hardware's facts.
    pub confirmed: bool,
}

/// The data for a training.
#[derive(Debug, Default)]
pub struct TrainingData {
    pub solutions: StoredSolutions,
    /// The uploads that the solutions came from.
    pub uploads: Vec<UploadId>,
}

/// A new upload, checked and encoded.
#[derive(Debug, Clone)]
pub struct NewUpload {
    pub id: UploadId,
    pub digest: Digest,
    pub bytes: u64,
    pub format: String,
    pub received_at: String,
    pub account: Option<AccountId>,
    pub licence: UploadLicence,
    /// The lease that the upload is the result of; `None` if it is no agent's.
    pub lease: Option<ForLease>,
    pub receipts: Vec<HardwareReceipt>,
    pub hardware: Vec<Hardware>,
    pub problems: BTreeMap<ProblemId, Problem>,
    pub config_lists: BTreeMap<Digest, Vec<u8>>,
    pub solutions: Vec<NewSolution>,
}

/// A blob that a row names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedBlob {
    pub kind: BlobKind,
    pub digest: Digest,
    pub bytes: u64,
}

/// A request for a page of a leaderboard.
#[derive(Debug, Clone)]
pub struct BoardQuery {
    pub filter: ProblemFilter,
    pub ranking: Ranking,
    pub limit: u32,
    /// `None` for the first page.
    pub after: Option<Cursor>,
}

/// A worker's right to a job. It ends unless the worker renews it.
#[derive(Debug, Clone)]
pub struct Claim {
    pub job: Job,
    /// The number of this claim. Only the latest claim of a job is valid.
    pub attempt: u64,
}

/// The result of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    Model(ModelId),
    Snapshot(SnapshotName),
    /// Figures, which are stored with a contributed model. Not everybody may see them.
    Figures,
}

impl std::fmt::Display for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Model(id) => write!(f, "model {id}"),
            Self::Snapshot(name) => write!(f, "snapshot {name}"),
            Self::Figures => write!(f, "figures of a contributed model"),
        }
    }
}

/// Whether a job was queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queued {
    Yes,
    /// [`MAX_WAITING_JOBS`] wait already.
    Full,
    /// The account already has [`MAX_OWN_JOBS`].
    TooManyOwn,
}

/// A moment by the caller's clock.
#[derive(Debug, Clone, Copy)]
pub struct Now(pub jiff::Timestamp);

impl Now {
    /// Reads the clock.
    pub fn read() -> Self {
        Self(jiff::Timestamp::now())
    }

    /// This moment, rounded down to a second.
    pub(crate) fn whole_second(self) -> Self {
        Self(jiff::Timestamp::from_second(self.0.as_second()).unwrap_or(self.0))
    }

    pub fn rfc3339(self) -> String {
        self.0.to_string()
    }

    pub(crate) fn millis(self) -> i64 {
        self.0.as_millisecond()
    }

    pub(crate) fn lease_end(self, lease: Duration) -> i64 {
        self.millis() + lease.as_millis() as i64
    }
}

impl NewUpload {
    /// The views of the solutions whose digests are in `new`.
    pub(super) fn touched(&self, new: &BTreeSet<String>) -> impl Iterator<Item = View> {
        let added = self.solutions.iter().filter(|solution| new.contains(solution.digest.as_str()));
        added.map(|solution| View {
            hardware: solution.hardware.clone(),
            problem: solution.problem.clone(),
            method: solution.method,
        })
    }
}

/// The lease that an upload is the result of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForLease {
    pub lease: LeaseId,
    pub agent: AgentId,
    /// See [`KnownAgent::contributor`](super::KnownAgent::contributor).
    pub contributor: String,
}
