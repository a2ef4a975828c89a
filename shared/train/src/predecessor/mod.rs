//! Training torch-diode's networks, to be compared with ours: its layers and its
//! recipe, without the mistakes that are not part of either.
//!
//! The mean square error of ln(ms) over all timings alike, Adam, a learning rate that
//! halves when validation stands still, and an early end. Unlike there, columns
//! are brought to scale, validation problems are none of the training problems,
//! and the best weights are those that are kept.

mod network;
mod options;
mod rows;
mod schedule;
mod trainer;

pub use options::PredecessorOptions;
pub use trainer::train_predecessor;
