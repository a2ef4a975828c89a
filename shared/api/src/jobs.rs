use serde::{Deserialize, Serialize};

use super::{ModelType, SnapshotName};
use diode_core::ids::{HardwareSlug, JobId, ModelId};
use diode_core::named_enum::named_enum;
use diode_core::{Heuristic, Method};

named_enum! {
    /// What a job does.
    JobKind("job kind") {
        /// Trains a model on everything that the server has of one hardware.
        Train = "train",
        /// Freezes everything that counts of one hardware as a snapshot.
        Snapshot = "snapshot",
        /// Judges a model that somebody has contributed.
        Evaluate = "evaluate",
    }
}

named_enum! {
    /// How far a job has come.
    JobState("job state") {
        Queued = "queued",
        Running = "running",
        Done = "done",
        Failed = "failed",
        /// Somebody has cancelled it.
        Cancelled = "cancelled",
    }
}

impl JobState {
    /// Whether the job has ended.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

/// Asks for a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct JobRequest {
    pub kind: JobKind,
    pub heuristic: Heuristic,
    pub hardware: HardwareSlug,
    /// What a training trains.
    #[serde(default, skip_serializing_if = "is_ranking")]
    pub model_type: ModelType,
    /// Which timings to learn from; the method with the most unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
    #[serde(default)]
    pub seed: u64,
}

impl JobRequest {
    /// A job of the commonest form: a ranking model, the usual method and the seed 0.
    pub fn new(kind: JobKind, heuristic: Heuristic, hardware: HardwareSlug) -> Self {
        Self { kind, heuristic, hardware, model_type: ModelType::Ranking, method: None, seed: 0 }
    }
}

/// Ranking models are left out of the JSON, so that requests have the same ids as before there were
/// other types.
fn is_ranking(model_type: &ModelType) -> bool {
    *model_type == ModelType::Ranking
}

/// A piece of work for the worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Job {
    pub id: JobId,
    pub request: JobRequest,
    pub state: JobState,
    pub created_at: String,
    /// Whether the server asked for it by itself, since enough was new.
    #[serde(default)]
    pub automatic: bool,
    pub finished_at: Option<String>,
    /// What a failed job failed of.
    pub error: Option<String>,
    /// The model a finished training made.
    pub model: Option<ModelId>,
    /// The snapshot that a finished job made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotName>,
}

/// One step of a job, in order; what the event stream sends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobEvent {
    /// Counts from 1 within the job.
    pub seq: u64,
    pub state: JobState,
    /// From 0 to 1.
    pub progress: f64,
    /// One line for people: `epoch 12 of 60, loss 0.031`.
    pub message: String,
}
