use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::{Digest, HardwareSlug, JobId, ModelId};
use crate::named_enum::named_enum;
use crate::{DType, Heuristic, Op};

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
}

named_enum! {
    /// Where a model comes from.
    ModelSource("source") {
        /// Released with Diode.
        Shipped = "shipped",
        /// Trained by this server.
        Trained = "trained",
    }
}

named_enum! {
    /// Whether programs take a model of their own accord.
    ModelState("model state") {
        /// The one that they take.
        Published = "published",
        /// It was published before.
        Earlier = "earlier",
        /// It was never published; its `reason` says why.
        Unpublished = "unpublished",
    }
}

/// A model that can be downloaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelSummary {
    pub id: ModelId,
    pub heuristic: Heuristic,
    pub hardware: HardwareSlug,
    pub ops: Vec<Op>,
    pub dtypes: Vec<DType>,
    /// Feature-set id and version: `physics/3`.
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
    /// Its first picks on the problems that this server keeps for judging; absent if it was not trained here,
    /// or if nothing was measured of them.
    #[serde(default)]
    pub kept: Option<KeptReport>,
    /// File name to save it under.
    pub file_name: String,
    /// Uploads that it was trained on and that do not count any more.
    #[serde(default)]
    pub withdrawn_uploads: u64,
    /// Of the models of one hardware and heuristic, one is published.
    #[serde(default = "earlier")]
    pub state: ModelState,
    /// Why it is unpublished; empty for others.
    #[serde(default)]
    pub reason: String,
    /// Whether nobody but an administrator puts another in its place.
    #[serde(default)]
    pub pinned: bool,
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
