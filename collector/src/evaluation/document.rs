//! The JSON documents of `evaluate`.

use diode_api::EvaluationReport;
use diode_core::{Config, OperandAlignment, Problem, ProblemGroup};
use diode_train::{Baselines, ProblemRow};
use serde::Serialize;

use super::contender::Contender;
use super::speedups::Speedups;

/// What `evaluate` found about a model and about what it is compared with.
#[derive(Serialize)]
pub(crate) struct Document {
    /// The first model.
    #[serde(flatten)]
    pub(crate) main: Contender,
    /// `model` if the weights in the file were judged, `recipe` if newly trained weights were.
    pub(crate) judged: &'static str,
    pub(crate) worst: Vec<Worst>,
    /// Ways to choose without a model.
    pub(crate) baselines: Baselines,
    /// Further models, and torch-diode's `v1` with the inputs of torch-diode's plug-in.
    pub(crate) compared: Vec<Contender>,
    /// The picks compared with reference configs, if these were given. Times are in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_autotune: Option<Speedups>,
}

/// What `evaluate --folds` found about the recipe.
#[derive(Serialize)]
pub(crate) struct RecipeDocument {
    #[serde(flatten)]
    pub(crate) report: EvaluationReport,
    pub(crate) judged: &'static str,
}

/// A problem whose first pick is far from the best, with its facts.
#[derive(Serialize)]
pub(crate) struct Worst {
    pub(crate) problem: Problem,
    pub(crate) kind: ProblemGroup,
    alignment: OperandAlignment,
    gflop: f64,
    flops_per_byte: f64,
    pub(crate) share: f64,
    pub(crate) picked: Config,
    pub(crate) picked_us: f64,
    predicted_us: f64,
    pub(crate) best: Config,
    pub(crate) best_us: f64,
    pub(crate) best_rank: usize,
    library_us: Option<f64>,
}

impl Worst {
    pub(crate) fn of(row: &ProblemRow) -> Self {
        Self {
            problem: row.problem.clone(),
            kind: row.kind,
            alignment: row.alignment,
            gflop: row.gflop,
            flops_per_byte: row.flops_per_byte,
            share: row.best_us / row.picked_us,
            picked: row.picked,
            picked_us: row.picked_us,
            predicted_us: row.predicted_us,
            best: row.best,
            best_us: row.best_us,
            best_rank: row.best_rank,
            library_us: row.library_us,
        }
    }
}
