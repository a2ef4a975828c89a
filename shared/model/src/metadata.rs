//! What a model's file states about the model.

use diode_api::EvaluationReport;
use diode_core::hardware::Hardware;
use diode_core::ids::{Digest, HardwareSlug};
use diode_core::{DType, Heuristic, Invalid, Method, Op};
use serde::{Deserialize, Serialize};

use crate::ModelError;
use crate::confidence::GroupConfidence;
use crate::features::FEATURE_SET;
use crate::range::TrainingRange;

/// What a model's file states about the model, as a JSON document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    pub heuristic: Heuristic,
    /// The hardware that the model predicts for. Its facts are inputs of every prediction.
    pub hardware: Hardware,
    /// The hardware that the model was trained on, if it only stands in for another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_in_from: Option<HardwareSlug>,
    /// The operators in the training data.
    pub ops: Vec<Op>,
    /// The input types in the training data.
    pub dtypes: Vec<DType>,
    /// The features that the weights were trained on: `physics/5`.
    pub feature_set: String,
    pub training: Training,
    /// Another method whose times the model has learnt, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_method: Option<Method>,
    /// The sizes and kinds of the training problems; `None` if they are not known.
    #[serde(default)]
    pub range: Option<TrainingRange>,
    /// Figures for problems that the model was not trained on, if they were measured.
    #[serde(default)]
    pub evaluation: Option<EvaluationReport>,
    /// The confidence in the picks, by problem group. It was measured on problems that the model
    /// was not trained on.
    #[serde(default)]
    pub confidence: Vec<GroupConfidence>,
    /// The factor for the predicted times of picks. A pick has the shortest of many predicted
    /// times, so its predicted time is too short on average.
    pub pick_bias: f64,
    /// The factor for the library's predicted time before it is compared with a config's. It
    /// balances the cost of wrongly picking the library against the cost of wrongly picking a
    /// config.
    #[serde(default = "one")]
    pub library_handicap: f64,
}

fn one() -> f64 {
    1.0
}

/// How a model was trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Training {
    pub data_digest: Digest,
    pub problems: u64,
    pub timings: u64,
    /// The method of the times that the model predicts.
    pub method: Method,
    /// Other hardware whose timings the model has learnt from, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<HardwareSlug>,
    pub seed: u64,
    /// When the model was trained, as RFC 3339.
    pub created_at: String,
    /// The program that trained the model: `diode 0.1.0`.
    pub tool: String,
    /// Whether the problems that are kept for judging were left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_kept: bool,
    /// The loss of each epoch of the model's network, in order. Older files do not state it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<f64>,
}

/// No training that converges has a larger loss.
const MOST_LOSS: f64 = 1e6;

impl Metadata {
    /// Checks metadata that came from outside.
    pub(crate) fn validate(&self) -> Result<(), ModelError> {
        if self.feature_set != FEATURE_SET {
            return Err(ModelError::UnknownFeatureSet {
                given: self.feature_set.clone(),
                expected: FEATURE_SET,
            });
        }
        self.hardware.validate()?;
        if self.hardware.facts.is_none() {
            return Err(ModelError::NoFacts { hardware: self.hardware.slug.clone() });
        }
        for (name, factor) in [("pick_bias", self.pick_bias), ("library_handicap", self.library_handicap)] {
            if !(factor.is_finite() && factor > 0.0) {
                return Err(Invalid::new(name, factor, "a finite factor above 0").into());
            }
        }
        if let Some(loss) = self.training.losses.iter().find(|loss| !(0.0..=MOST_LOSS).contains(*loss)) {
            return Err(Invalid::new("losses", loss, format!("from 0 to {MOST_LOSS}")).into());
        }
        self.confidence.iter().try_for_each(GroupConfidence::validate)?;
        Ok(())
    }
}
