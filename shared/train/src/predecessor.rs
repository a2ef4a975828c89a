//! Trains torch-diode's networks, to compare them with ours. Layers and recipe are torch-diode's,
//! but three of its mistakes are not repeated.
//!
//! The recipe: the mean square error of ln(ms), with the same weight for all timings; Adam; a
//! learning rate that halves when the validation loss stops falling; and an early end. Unlike in
//! torch-diode, columns are scaled, validation problems are not trained on, and the best weights
//! are kept.

mod network;
mod options;
mod rows;
mod schedule;
mod trainer;

pub use options::PredecessorOptions;
pub use trainer::train_predecessor;
