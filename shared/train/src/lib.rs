//! Training and judging models.
//!
//! A small network is trained to put the near-best configs of each problem in the right order. A
//! still smaller network learns how long the vendor's library takes.
#![deny(unsafe_code)]

mod checkpoint;
mod cross_validate;
mod curves;
mod error;
mod evaluation;
mod fit;
mod fold_models;
mod folds;
mod judgement;
mod learner;
mod left_out;
mod library;
mod loss;
mod network;
mod options;
mod plan;
mod prepared;
mod progress;
mod schedule;
mod set;
mod side_by_side;

pub use checkpoint::{Checkpoint, LearntNetwork};
pub use cross_validate::cross_validate;
pub use curves::{EpochLoss, curves};
pub use error::TrainError;
pub use evaluation::{
    Baseline, Baselines, Evaluation, EvaluationGroup, FirstPicks, Judge, Judged, JudgedRow, ProblemRow,
    Verdict, WithLibrary, evaluate, evaluate_with_library, judge, report, without_a_model,
};
pub use fit::{Fitted, fit, train, training};
pub use fold_models::FoldModel;
pub use folds::Folds;
pub use left_out::LeftOut;
pub use options::TrainOptions;
pub use plan::Plan;
pub use progress::{Observer, Progress, Share};
pub use set::{TimedConfig, TrainingProblem, TrainingSet};
