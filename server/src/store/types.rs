//! What goes into the store and comes out of it, in domain words.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use diode_core::api::{HardwareReceipt, Job, ProblemFilter, SnapshotName, UploadLicence};
use diode_core::hardware::Hardware;
use diode_core::ids::{AccountId, AgentId, Digest, HardwareSlug, LeaseId, ModelId, ProblemId, UploadId};
use diode_core::{Method, Problem};

use serde::{Deserialize, Serialize};

use super::cursor::{Cursor, Ranking};
use crate::blobs::BlobKind;
use crate::solutions::StoredSolutions;

/// A worker that has not reported for this long is taken for dead. Longer than a write waits for others.
pub const LEASE: Duration = Duration::from_secs(90);

/// The most jobs that may wait: hours of work for one worker.
pub const MAX_WAITING_JOBS: u32 = 20;

/// The most jobs of one account that may wait or run, so that others have their turn.
pub const MAX_OWN_JOBS: u32 = 5;

/// After a failure that may pass, a job waits so long for its next worker, and twice as long each time.
pub const BACK_OFF: Duration = Duration::from_secs(30);

/// A job whose workers died this often is given up: the job itself may be the
/// cause.
pub const MAX_ATTEMPTS: u64 = 3;

/// What one leaderboard row is about.
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

/// A solution on its way into the store.
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
    /// Whether an administrator vouches for its facts.
    pub confirmed: bool,
}

/// What a model is trained on.
#[derive(Debug, Default)]
pub struct TrainingData {
    pub solutions: StoredSolutions,
    /// The uploads that the solutions came from.
    pub uploads: Vec<UploadId>,
}

/// A whole upload on its way into the store, checked and encoded.
#[derive(Debug, Clone)]
pub struct NewUpload {
    pub id: UploadId,
    pub digest: Digest,
    pub bytes: u64,
    pub format: String,
    pub received_at: String,
    pub account: Option<AccountId>,
    pub licence: UploadLicence,
    /// What it is the result of; `None` if nobody has asked for it.
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

/// A page of a leaderboard, as asked for.
#[derive(Debug, Clone)]
pub struct BoardQuery {
    pub filter: ProblemFilter,
    pub ranking: Ranking,
    pub limit: u32,
    /// `None` for the first page.
    pub after: Option<Cursor>,
}

/// A job that a worker may work on until its lease ends.
#[derive(Debug, Clone)]
pub struct Claim {
    pub job: Job,
    /// Which claim of this job it is; only the latest one is valid.
    pub attempt: u64,
}

/// What a job made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    Model(ModelId),
    Snapshot(SnapshotName),
    /// What is kept with a contributed model, which is not everybody's to see.
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

/// What became of a job that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queued {
    Yes,
    /// [`MAX_WAITING_JOBS`] wait already.
    Full,
    /// The account has [`MAX_OWN_JOBS`].
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

    /// Without its fraction of a second.
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
    /// The views of those solutions whose digests are among `new`.
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
