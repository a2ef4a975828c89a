//! What evaluation and ranking ask of any kind of model.

use diode_core::api::EvaluationReport;
use diode_core::hardware::Hardware;
use diode_core::{Config, Problem};

use crate::metadata::Training;
use crate::{Model, ModelError};

/// Predicts times. Logarithms, since a badly fed network can claim times that no number holds.
pub trait Predictor {
    /// The natural logarithm of the time in µs of each config.
    fn ln_us(&self, problem: &Problem, configs: &[Config]) -> Result<Vec<f64>, ModelError>;

    /// The same of the library kernel, for models that predict it.
    fn library_ln_us(&self, _: &Problem) -> Result<Option<f64>, ModelError> {
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
