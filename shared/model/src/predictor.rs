//! What evaluation and ranking ask of any kind of model.

use diode_core::api::EvaluationReport;
use diode_core::hardware::Hardware;
use diode_core::space::Space;
use diode_core::{Config, Problem};

use crate::metadata::Training;
use crate::rank::{RankedSpace, rank};
use crate::{Model, ModelError};

/// Predicts times. Logarithms, since a badly fed network can claim times that no number holds.
pub trait Predictor {
    /// The natural logarithm of the time in µs of each config.
    fn ln_us(&self, problem: &Problem, configs: &[Config]) -> Result<Vec<f64>, ModelError>;

    /// The configs in order with the library's time, for models that have a rule for what
    /// to pick of them; others pick in the order of times.
    fn ranked(&self, _: &Problem, _: &[Config]) -> Result<Option<RankedSpace>, ModelError> {
        Ok(None)
    }

    /// The hardware it speaks of, where its file says so.
    fn hardware(&self) -> Option<&Hardware>;

    /// How it was trained, where its file says so.
    fn training(&self) -> Option<&Training>;

    /// What was measured of it on problems that it had not seen.
    fn evaluation(&self) -> Option<&EvaluationReport>;

    /// How many weights were learnt.
    fn parameters(&self) -> u64;
}

impl Predictor for Model {
    fn ln_us(&self, problem: &Problem, configs: &[Config]) -> Result<Vec<f64>, ModelError> {
        Ok(self.predict(problem, configs)?.into_iter().map(|time| libm::log(time.0)).collect())
    }

    fn ranked(&self, problem: &Problem, configs: &[Config]) -> Result<Option<RankedSpace>, ModelError> {
        Ok(Some(rank(self, problem, &Space::List(configs.to_vec()))?))
    }

    fn hardware(&self) -> Option<&Hardware> {
        Some(&self.metadata().hardware)
    }

    fn training(&self) -> Option<&Training> {
        Some(&self.metadata().training)
    }

    fn evaluation(&self) -> Option<&EvaluationReport> {
        self.metadata().evaluation.as_ref()
    }

    fn parameters(&self) -> u64 {
        self.parameters()
    }
}
