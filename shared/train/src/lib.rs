//! Training and judging models.
//!
//! A small network learns to put the near-best configs of each problem in the right order. A still smaller
//! one learns how long cuBLAS or hipBLASLt takes.
#![deny(unsafe_code)]

mod error;
mod evaluation;
mod fit;
mod judgement;
mod learner;
mod library;
mod network;
mod options;
mod prepared;
mod progress;
mod serving;
mod set;
mod side_by_side;
pub use error::TrainError;
pub use evaluation::{
    Baseline, Baselines, Evaluation, EvaluationGroup, FirstPicks, Judge, Judged, JudgedRow, ProblemRow,
    Verdict, WithLibrary, evaluate, evaluate_with_library, judge, learnt, report, split_of, without_a_model,
};
pub use fit::{Fitted, fit, train, training};
pub use judgement::{FoldModel, Folds, cross_validate};
pub use options::{Plan, TrainOptions};
pub use progress::{Checkpoint, EpochLoss, LearntNetwork, Observer, Progress, Share, curves};
pub use serving::{
    JudgedServing, LEAST_SERVED, ServingProblem, geomean, judge_serving, served, serving_figures,
    serving_options, serving_problems, train_serving,
};
pub use set::{LeftOut, TimedConfig, TrainingProblem, TrainingSet};
