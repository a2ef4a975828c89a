//! torch-diode, the Python system that Diode succeeds: its files and its networks.
//!
//! Everything here exists so that what people made with torch-diode keeps working. Diode's own formats and models don't
//! use it. torch-diode's datasets are among the five formats of `diode-formats`, because programs still exchange them.
#![forbid(unsafe_code)]

mod any_model;
mod checkpoint;
pub mod features;
#[cfg(feature = "train")]
mod learner;
mod model;
mod network;
mod reference_configs;
mod shape_set;
#[cfg(feature = "train")]
mod training;

pub use any_model::AnyModel;
pub use checkpoint::{
    SavedTensor, SavedValues, Setting, TorchCheckpoint, decode_checkpoint, read_checkpoint,
};
pub use model::{PredecessorMetadata, PredecessorModel};
pub use network::{Architecture, Part};
pub use reference_configs::{
    ReferenceConfig, ReferenceConfigs, Scope, decode_reference_configs, read_reference_configs,
};
pub use shape_set::{ShapeForm, ShapeSet, decode_shapes, read_shapes};
#[cfg(feature = "train")]
pub use training::{PredecessorOptions, train_predecessor};
