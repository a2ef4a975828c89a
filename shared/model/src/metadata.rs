//! What a model says about itself.

use diode_core::api::EvaluationReport;
use diode_core::hardware::Hardware;
use diode_core::ids::Digest;
use diode_core::{DType, Heuristic, Invalid, Method, Op};
use serde::{Deserialize, Serialize};

use crate::ModelError;
use crate::features::FEATURE_SET;

/// What a model says about itself; the JSON document in its file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    pub heuristic: Heuristic,
    /// The hardware it speaks of; its facts are inputs of every prediction.
    pub hardware: Hardware,
    /// The operators in the training data.
    pub ops: Vec<Op>,
    /// The input types in the training data.
    pub dtypes: Vec<DType>,
    /// Which features the weights were trained on: `physics/1`.
    pub feature_set: String,
    pub training: Training,
    /// Metrics on problems it was not trained on, where someone measured them.
    #[serde(default)]
    pub evaluation: Option<EvaluationReport>,
    /// What the predicted time of a picked config is multiplied by: the pick is
    /// the luckiest of many predictions, so it is too low on average.
    pub pick_bias: f64,
}

/// How a model came to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Training {
    pub data_digest: Digest,
    pub problems: u64,
    pub timings: u64,
    /// How the times it predicts were taken.
    pub method: Method,
    pub seed: u64,
    /// When it was trained, as RFC 3339.
    pub created_at: String,
    /// The program that trained it: `diode 0.1.0`.
    pub tool: String,
}

impl Metadata {
    /// Checks what came from outside.
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
        if !(self.pick_bias.is_finite() && self.pick_bias > 0.0) {
            return Err(Invalid::new("pick_bias", self.pick_bias, "a finite factor above 0").into());
        }
        Ok(())
    }
}
