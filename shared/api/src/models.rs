use std::collections::BTreeMap;

use diode_core::ids::{Digest, HardwareSlug, JobId, ModelId};
use diode_core::named_enum::named_enum;
use diode_core::{DType, Heuristic, Method, Op};
use serde::{Deserialize, Serialize};

use crate::SnapshotName;
use crate::contributions::Contribution;

named_enum! {
    /// Where a model comes from.
    ModelSource("source") {
        /// Released with Diode.
        Shipped = "shipped",
        /// Trained by this server.
        Trained = "trained",
        /// Sent by somebody, and accepted by an administrator.
        Contributed = "contributed",
    }
}

named_enum! {
    /// Whether programs use a model without being told to.
    ModelState("model state") {
        /// Programs use it.
        Published = "published",
        /// It was published before.
        Earlier = "earlier",
        /// It was never published; its `reason` says why.
        Unpublished = "unpublished",
    }
}

named_enum! {
    /// What a model's network learns, and from which features.
    #[derive(Default)]
    ModelType("model type") {
        /// The order of configs, from physical features. Programs use other types only if told to.
        #[default]
        Ranking = "ranking",
        /// Times, with torch-diode's plain network.
        Base = "base",
        /// Times, with torch-diode's residual network.
        Deep = "deep",
    }
}

/// A model that can be downloaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelSummary {
    pub id: ModelId,
    pub heuristic: Heuristic,
    /// `base` and `deep` are for comparison, and never published.
    #[serde(default)]
    pub model_type: ModelType,
    pub hardware: HardwareSlug,
    pub ops: Vec<Op>,
    pub dtypes: Vec<DType>,
    /// Feature-set id and version: `physics/5`.
    pub feature_set: String,
    pub parameters: u64,
    pub digest: Digest,
    pub bytes: u64,
    pub source: ModelSource,
    pub job: Option<JobId>,
    /// When it was trained, as RFC 3339.
    pub created_at: String,
    /// Digest of the training data.
    pub data_digest: Digest,
    pub training_problems: u64,
    pub training_timings: u64,
    /// Out-of-sample metrics, as the model's file states them.
    pub evaluation: Option<EvaluationReport>,
    /// Its first picks on the problems that this server keeps for judging; absent if it was released with
    /// Diode, or if nothing was measured of them.
    #[serde(default)]
    pub kept: Option<KeptReport>,
    /// File name to save it under.
    pub file_name: String,
    /// Uploads that it was trained on and that do not count any more.
    #[serde(default)]
    pub withdrawn_uploads: u64,
    /// Whether the server has the networks of its cross-validation.
    #[serde(default)]
    pub unseen_models: bool,
    /// Of the models of one hardware and heuristic, one is published.
    #[serde(default = "earlier")]
    pub state: ModelState,
    /// Why it is unpublished; empty for others.
    #[serde(default)]
    pub reason: String,
    /// Whether nobody but an administrator puts another in its place.
    #[serde(default)]
    pub pinned: bool,
    /// Who contributed it, and what the server found; absent for other models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contribution: Option<Contribution>,
}

fn earlier() -> ModelState {
    ModelState::Earlier
}

impl ModelSummary {
    /// The published model of a hardware.
    pub fn best_for<'a>(models: &'a [Self], hardware: &HardwareSlug) -> Option<&'a Self> {
        models.iter().find(|model| model.hardware == *hardware && model.state == ModelState::Published)
    }
}

/// How near the best of the first k picks comes to the best there is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TopK {
    /// Geometric mean over problems of best measured / best measured among the picks.
    pub geomean: f64,
    /// The same of the worst problem.
    pub worst: f64,
}

/// How well a model does on problems it was not trained on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EvaluationReport {
    pub problems: usize,
    /// Configs per problem, at most.
    pub configs: usize,
    /// By k, as text: "1", "3", "5", "8", "16".
    pub top_k: BTreeMap<String, TopK>,
    /// Mean absolute error of time over all timings, as a share.
    pub mape_all: f64,
    /// The same over timings within twice the best.
    pub mape_within_2x: f64,
    /// Median over problems of the rank correlation.
    pub spearman_median: f64,
    /// Time to rank the space for one problem; 0 where nobody timed it, as in a model's own
    /// file, which is to come out the same each time.
    pub rank_us_per_problem: f64,
    /// The share of problems where the best of k picks is within 5 % of the best.
    #[serde(default)]
    pub within_5_percent: BTreeMap<String, f64>,
    /// How the problems were split: `4-fold cross-validation`, `held-out dataset`, …
    #[serde(default)]
    pub split: String,
}

/// How good a model's first picks are on the problems that are kept for judging.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeptReport {
    pub problems: u64,
    /// Compared with the best Triton config.
    pub triton: TopK,
    /// Compared with the best of everything, over the problems where the library was timed; absent if there
    /// are none.
    pub everything: Option<TopK>,
    /// How many those are.
    pub timed_library: u64,
    /// What choices without a model reach on the same problems, compared with the best Triton config: by the choice, in
    /// words. Empty in reports of older servers.
    #[serde(default)]
    pub baselines: BTreeMap<String, TopK>,
    /// The same, compared with the best of everything.
    #[serde(default)]
    pub baselines_of_everything: BTreeMap<String, TopK>,
}

named_enum! {
    /// What happens to a model.
    PublicationAction("action") {
        /// It replaces the published model, even a pinned one.
        Publish = "publish",
        /// It is no longer published, and the model that was published before it is published
        /// again.
        RollBack = "roll-back",
        /// It stays published until an administrator says otherwise.
        Pin = "pin",
        /// Better models may replace it again.
        Unpin = "unpin",
        /// It is not published because it is worse. Only the server does this.
        Refuse = "refuse",
    }
}

/// A step in the history of a hardware's models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Publication {
    /// As RFC 3339.
    pub at: String,
    pub hardware: HardwareSlug,
    pub heuristic: Heuristic,
    pub model: ModelId,
    pub action: PublicationAction,
    /// The name of an account, `command line`, or `server` where it acted by itself.
    pub who: String,
    pub why: String,
}

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
