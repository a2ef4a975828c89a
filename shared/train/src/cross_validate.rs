//! Judging the recipe on problems that the models have not seen.

use std::ops::ControlFlow;

use diode_core::api::EvaluationReport;

use crate::checkpoint::Checkpoint;
use crate::fit::fit;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::{TrainError, TrainOptions, TrainingSet};

/// Trains on all folds but one and judges on that one, for each fold.
///
/// Returns the report over all problems, each judged by a model that has not
/// seen it, and the factor that corrects the predicted times of picks: the
/// median of measured over predicted. Fewer folds are made when there are not
/// enough problems.
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
