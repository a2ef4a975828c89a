//! The arithmetic of a model: features of configs on a problem, and the network that predicts times from them.
//!
//! It uses only plain IEEE arithmetic in a fixed order, so that every machine gives the same numbers
//! to a millionth. It is a crate of its own so that the browser's build, which is optimised for size,
//! can optimise this part for speed.
#![forbid(unsafe_code)]

mod error;
pub mod features;
mod layer;
pub mod math;
mod network;
mod prepared;
mod vectors;

pub use error::Misfit;
pub use layer::Layer;
pub use network::{Network, normalise};
pub use prepared::{Effort, Predicted, PreparedTiles, fastest_first};
