//! Training and judging models.
//!
//! Candle trains the small network that `diode-model` evaluates: listwise, so that
//! the near-best configs of each problem come in the right order.
#![forbid(unsafe_code)]

mod batch;
mod cross_validate;
mod error;
mod evaluation;
mod legacy;
mod loss;
mod network;
mod normalise;
mod options;
mod progress;
mod schedule;
mod set;
mod trainer;

pub use cross_validate::cross_validate;
pub use error::TrainError;
pub use evaluation::{
    Baseline, Baselines, Evaluation, Group, Judged, JudgedRow, Kind, LibraryTimes, ProblemRow, WithLibrary,
    evaluate, evaluate_with_library, judge, kind, without_a_model,
};
pub use legacy::{LegacyOptions, train_legacy};
pub use options::TrainOptions;
pub use progress::Progress;
pub use set::{LeftOut, TimedConfig, TrainingProblem, TrainingSet};
pub use trainer::train;
