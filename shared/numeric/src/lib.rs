//! The arithmetic of a model: features of configs on a problem, and the network that predicts times from them.
//!
//! It uses only plain IEEE arithmetic in a fixed order, so that all machines give the same numbers to a
//! few millionths. The browser's build is optimised for size. This crate is separate, so that it can be optimised
//! for speed there.
#![forbid(unsafe_code)]

pub mod features;
pub mod math;
mod network;
mod prepared;
pub mod serving;
mod vectors;
pub use network::{Layer, Misfit, Network, halves};
pub use prepared::{Effort, Predicted, PreparedTiles, fastest_first};
pub use vectors::normalise;
