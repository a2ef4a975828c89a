//! Judges the recipe on problems that the models were not trained on.

use std::ops::ControlFlow;

use diode_api::EvaluationReport;

use crate::checkpoint::Checkpoint;
use crate::fit::fit;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::{TrainError, TrainOptions, TrainingSet};

/// For each fold, trains a model on the other folds and judges it on this fold.
///
/// Returns the report over all problems, and the factor that corrects the predicted times of picks.
/// The factor is the median of measured time / predicted time. With too few problems there are
/// fewer folds.
pub fn cross_validate(
    set: &TrainingSet,
    options: &TrainOptions,
    folds: usize,
    observe: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<(EvaluationReport, f64), TrainError> {
    let plan = Plan { options: options.clone(), folds, created_at: String::new(), keep_when_stopped: false };
    let fitted = fit(set, &plan, &Checkpoint::new(set, &plan), observe)?;
    let report = fitted.report.ok_or(TrainError::TooFewProblems { problems: set.problems() })?;
    Ok((report, fitted.model.metadata().pick_bias))
}
