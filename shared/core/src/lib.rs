//! The vocabulary of Diode.
//!
//! The collector, the server, the browser and the plug-in exchange these types. A [`Config`] is one
//! way to compute a [`Problem`]. A [`Solution`] holds the timings of many configs on one problem,
//! measured on one [`Hardware`](hardware::Hardware). This crate has no I/O, clocks or threads.
#![forbid(unsafe_code)]

pub mod alignment;
pub mod comparison;
pub mod config;
pub mod config_fields;
pub mod dataset;
pub mod dtype;
mod epilogue;
pub mod error;
pub mod group;
pub mod hardware;
pub mod heuristic;
pub mod ids;
mod kept;
pub mod kernel_variant;
pub mod layout;
pub mod method;
pub mod mixing;
#[doc(hidden)]
pub mod named_enum;
mod numbered;
pub mod op;
#[cfg(feature = "openapi")]
mod openapi;
pub mod physics;
pub mod problem;
pub mod provenance;
pub mod shapes;
pub mod simulated;
pub mod space;
pub mod stats;
pub mod table;
pub mod timing;
pub mod units;

pub use alignment::{Alignment, OperandAlignment};
pub use comparison::Comparison;
pub use config::{AccType, Config, RocmExtras, Template, Tile};
pub use config_fields::ConfigFields;
pub use dataset::{ConfigDictionary, ConfigIndex, Dataset, Failure, FailureReason, Solution};
pub use dtype::DType;
pub use epilogue::Epilogue;
pub use error::{Field, Invalid};
pub use group::ProblemGroup;
pub use heuristic::Heuristic;
pub use kept::{hash_of_size, is_kept};
pub use kernel_variant::KernelVariant;
pub use layout::{Layout, OutputLayout};
pub use method::Method;
pub use numbered::numbered;
pub use op::Op;
pub use problem::{Bias, Problem, ProblemFields};
pub use provenance::Provenance;
pub use table::Table;
pub use timing::TimeColumn;
pub use units::{Micros, Millis, Nanos, Tflops};
