//! The vocabulary of Diode.
//!
//! The collector, the server, the browser and the plug-in exchange these types. A [`Config`] is one
//! way to compute a [`Problem`]. A [`Solution`] holds the timings of many configs on one problem,
//! measured on one [`Hardware`](hardware::Hardware). This crate has no I/O, clocks or threads.
#![forbid(unsafe_code)]

pub mod alignment;
pub mod baselines;
pub mod config;
pub mod dataset;
pub mod error;
pub mod hardware;
pub mod ids;
pub mod kept;
pub mod kernel_variant;
#[doc(hidden)]
pub mod named_enum;
#[cfg(feature = "openapi")]
mod openapi;
pub mod physics;
pub mod problem;
pub mod shapes;
pub mod simulated;
pub mod space;
pub mod stats;
pub mod table;
pub mod timing;
pub use alignment::{Alignment, OperandAlignment};
pub use config::{AccType, Config, ConfigFields, RocmExtras, Template, Tile};
pub use dataset::{
    ConfigDictionary, ConfigIndex, Dataset, Failure, FailureReason, Provenance, Solution, numbered,
};
pub use error::{Field, Invalid};
pub use ids::Heuristic;
pub use kept::{hash_of_size, is_kept, mark_of_size};
pub use kernel_variant::KernelVariant;
pub use problem::{
    Bias, DType, Epilogue, Groups, Layout, Op, OutputLayout, Problem, ProblemFields, ProblemGroup, Rows,
    Scaling, Stage,
};
pub use stats::Comparison;
pub use table::Table;
pub use timing::{Method, TimeColumn};
pub use timing::{Micros, Millis, Nanos, Tflops};
