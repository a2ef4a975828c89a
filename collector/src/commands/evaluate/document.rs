//! The JSON documents of `evaluate`.

use diode_core::api::EvaluationReport;
use diode_core::{Config, OperandAlignment, Problem, ProblemGroup};
use diode_train::{Baselines, Evaluation, ProblemRow};
use serde::Serialize;

use crate::commands::speedups::Speedups;

/// What `evaluate` found of a model and of what it is compared with.
#[derive(Serialize)]
pub(super) struct Document {
    /// The first model.
    #[serde(flatten)]
    pub(super) main: Contender,
    /// `model` if the file's own weights were judged, `recipe` for fresh ones.
    pub(super) judged: &'static str,
    pub(super) worst: Vec<Worst>,
    /// What one gets without a model.
    pub(super) baselines: Baselines,
    /// Further models, and the old one fed as it used to be.
    pub(super) compared: Vec<Contender>,
    /// Against the configs of a solution, where one was given; times in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_autotune: Option<Speedups>,
}

/// What `evaluate --folds` found of the recipe.
#[derive(Serialize)]
pub(super) struct RecipeDocument {
    #[serde(flatten)]
    pub(super) report: EvaluationReport,
    pub(super) judged: &'static str,
}

/// A model and what came of it.
#[derive(Serialize)]
pub(super) struct Contender {
    /// The name of its file.
    pub(super) model: String,
    /// `ranking`, or one of torch-diode's: `v1`, `base`, `deep`.
    pub(super) kind: &'static str,
    /// How v1 was fed: `right`, or `as the plug-in did`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fed: Option<&'static str>,
    pub(super) parameters: u64,
    #[serde(flatten)]
    pub(super) evaluation: Evaluation,
}

impl Contender {
    pub(super) fn name(&self) -> String {
        match self.fed {
            Some("right") | None => self.model.clone(),
            Some(fed) => format!("{}, fed {fed}", self.model),
        }
    }
}

/// A problem whose first pick is far from the best, with its facts.
#[derive(Serialize)]
pub(super) struct Worst {
    pub(super) problem: Problem,
    pub(super) kind: ProblemGroup,
    alignment: OperandAlignment,
    gflop: f64,
    flops_per_byte: f64,
    pub(super) share: f64,
    pub(super) picked: Config,
    pub(super) picked_us: f64,
    predicted_us: f64,
    pub(super) best: Config,
    pub(super) best_us: f64,
    pub(super) best_rank: usize,
    library_us: Option<f64>,
}

impl Worst {
    pub(super) fn of(row: &ProblemRow) -> Self {
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
