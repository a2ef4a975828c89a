//! How good a model's picks are. They are judged by measured times and compared with choices
//! without a model.

mod baselines;
mod document;
mod judged;
mod kept;
mod rank_correlation;
mod verdict;

use std::collections::BTreeMap;

use diode_api::{EvaluationReport, TopK};
use diode_model::Predictor;

pub use baselines::{Baseline, Baselines};
pub use document::{Evaluation, EvaluationGroup, ProblemRow, WithLibrary, without_a_model};
pub use judged::Judge;
pub(crate) use judged::judge_while;
pub use judged::{Judged, JudgedRow, judge};
pub use kept::FirstPicks;
use verdict::with_library;
pub use verdict::{Verdict, report};

use crate::{TrainError, TrainingSet};

/// Judges a model on a set. The model picks among the configs that each problem of the set has.
pub fn evaluate(model: &dyn Predictor, set: &TrainingSet) -> Result<EvaluationReport, TrainError> {
    Ok(report(&verdicts(model, set)?, split(model, set)))
}

/// The same with the library kernel as a candidate, over the problems with a library time. `None`
/// if there are no such problems. If the model does not predict the library's time, the library is
/// timed beside the picks.
pub fn evaluate_with_library(
    model: &dyn Predictor,
    set: &TrainingSet,
) -> Result<Option<BTreeMap<String, TopK>>, TrainError> {
    Ok(with_library(&verdicts(model, set)?))
}

pub(crate) fn verdicts(model: &dyn Predictor, set: &TrainingSet) -> Result<Vec<Verdict>, TrainError> {
    Ok(judge(model, set)?.iter().map(Verdict::of).collect())
}

/// Where the judged problems come from, in words.
fn split(model: &dyn Predictor, set: &TrainingSet) -> &'static str {
    let trained_on_it = model.training().is_some_and(|training| training.data_digest == set.digest());
    if trained_on_it { "the training data" } else { "given dataset" }
}
