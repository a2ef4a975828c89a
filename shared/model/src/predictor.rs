//! What evaluation and ranking need from a model of any type.

use std::ops::Deref;

use diode_api::EvaluationReport;
use diode_core::hardware::Hardware;
use diode_core::space::Space;
use diode_core::{Config, Method, Problem};

use crate::metadata::Training;
use crate::{Model, ModelError, RankedSpace, Ranker};

/// Predicts logarithms of times. A network with wrong inputs could predict times that no float can hold.
pub trait Predictor {
    /// The natural logarithm of the predicted time in µs of each config.
    fn predict_ln_us(&self, problem: &Problem, configs: &[Config]) -> Result<Vec<f64>, ModelError>;

    /// The rule by which the model makes picks, if it has one. Other models pick the first configs in the
    /// order of predicted times.
    fn shortlister(&self) -> Option<Box<dyn Shortlister + '_>> {
        None
    }

    /// The same model with times by another method, if it has learnt several.
    fn for_method(&self, _method: Method) -> Option<Box<dyn Predictor>> {
        None
    }

    /// The hardware that the model predicts for, if its file names it.
    fn hardware(&self) -> Option<&Hardware>;

    /// How the model was trained, if its file says so.
    fn training(&self) -> Option<&Training>;

    /// Figures for problems that the model was not trained on.
    fn evaluation(&self) -> Option<&EvaluationReport>;

    /// The number of weights that were learnt.
    fn parameters(&self) -> u64;
}

/// Makes picks for one problem after the other.
pub trait Shortlister {
    /// A part of the space that is enough for [`MOST_PICKS`](crate::MOST_PICKS) picks, with the best first,
    /// and the library's predicted time.
    fn shortlist(&mut self, problem: &Problem, space: &Space) -> Result<RankedSpace, ModelError>;
}

impl<M: Deref<Target = Model>> Shortlister for Ranker<M> {
    fn shortlist(&mut self, problem: &Problem, space: &Space) -> Result<RankedSpace, ModelError> {
        Ranker::shortlist(self, problem, space)
    }
}

impl Predictor for Model {
    fn predict_ln_us(&self, problem: &Problem, configs: &[Config]) -> Result<Vec<f64>, ModelError> {
        Ok(self.predict(problem, configs)?.into_iter().map(|time| libm::log(time.0)).collect())
    }

    fn shortlister(&self) -> Option<Box<dyn Shortlister + '_>> {
        Some(Box::new(Ranker::new(self)))
    }

    fn for_method(&self, method: Method) -> Option<Box<dyn Predictor>> {
        self.metadata().second_method.is_some().then(|| Box::new(self.for_method(method)) as _)
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
