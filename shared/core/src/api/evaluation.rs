//! How good a model's picks are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How near the best of the first k picks comes to the best there is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TopK {
    /// Geometric mean over problems of best measured / best measured among the picks.
    pub geomean: f64,
    /// The same of the worst problem.
    pub worst: f64,
}

/// How well a model does on problems it was not trained on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EvaluationReport {
    pub problems: usize,
    /// Configs per problem, at most.
    pub configs: usize,
    /// By k, as text: "1", "3", "5", "8", "16".
    pub top_k: BTreeMap<String, TopK>,
    /// Mean absolute error of time over all timings, as a share.
    pub mape_all: f64,
    /// The same over timings within twice the best.
    pub mape_within_2x: f64,
    /// Median over problems of the rank correlation.
    pub spearman_median: f64,
    /// Time to rank the space for one problem; 0 where nobody timed it, as in a model's own
    /// file, which is to come out the same each time.
    pub rank_us_per_problem: f64,
    /// The share of problems where the best of k picks is within 5 % of the best.
    #[serde(default)]
    pub within_5_percent: BTreeMap<String, f64>,
    /// How the problems were split: `4-fold cross-validation`, `held-out dataset`, …
    #[serde(default)]
    pub split: String,
}

/// How good a model's first picks are on the problems that are kept for judging.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeptReport {
    pub problems: u64,
    /// Compared with the best Triton config.
    pub triton: TopK,
    /// Compared with the best of everything, over the problems where the library was timed; absent if there
    /// are none.
    pub everything: Option<TopK>,
    /// How many those are.
    pub timed_library: u64,
    /// What choices without a model reach on the same problems, compared with the best Triton config: by the choice, in
    /// words. Empty in reports of older servers.
    #[serde(default)]
    pub baselines: BTreeMap<String, TopK>,
    /// The same, compared with the best of everything.
    #[serde(default)]
    pub baselines_of_everything: BTreeMap<String, TopK>,
}
