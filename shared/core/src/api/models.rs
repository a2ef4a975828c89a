use serde::{Deserialize, Serialize};

use super::contributions::Contribution;
use super::evaluation::{EvaluationReport, KeptReport};
use crate::ids::{Digest, HardwareSlug, JobId, ModelId};
use crate::named_enum::named_enum;
use crate::{DType, Heuristic, Op};

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
