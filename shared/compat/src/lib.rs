//! torch-diode, the Python system that Diode succeeds: its files, networks, reports and command lines.
//!
//! Everything here exists so that what people made with torch-diode keeps working. Diode's own formats and models don't
//! use it. torch-diode's datasets are among the five formats of `diode-formats`, because programs still exchange them.
#![forbid(unsafe_code)]

mod checkpoint;
mod command_line;
pub mod features;
#[cfg(feature = "train")]
mod learner;
mod lossy;
mod model;
mod network;
mod reference_configs;
mod shape_set;
#[cfg(feature = "train")]
mod speedups;
#[cfg(feature = "train")]
mod training;
#[cfg(feature = "train")]
mod validation;

pub use checkpoint::{
    SavedTensor, SavedValues, Setting, TorchCheckpoint, decode_checkpoint, read_checkpoint,
};
pub use command_line::{after_the_command, parse_search_mode};
pub use lossy::{NOT_KEPT, is_predecessors, told_apart, write_lossy};
pub use model::AnyModel;
pub use model::{PredecessorMetadata, PredecessorModel};
pub use network::{Architecture, Part};
pub use reference_configs::{
    ReferenceConfig, ReferenceConfigs, Scope, decode_reference_configs, read_reference_configs,
};
pub use shape_set::{ShapeForm, ShapeSet, decode_shapes, read_shapes};
#[cfg(feature = "train")]
pub use speedups::{Comparison, Speedups, compare};
#[cfg(feature = "train")]
pub use training::{PredecessorOptions, train_predecessor};
#[cfg(feature = "train")]
pub use validation::{Validation, WorstPick, WorstPrediction};
