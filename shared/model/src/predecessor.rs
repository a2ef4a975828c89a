//! torch-diode's networks, so that its models can be used and compared with ours.
//!
//! The three types, their features and the names of their tensors are torch-diode's own. A model
//! comes from one of torch-diode's checkpoints, or from a file of ours that holds such a network,
//! trained here.

mod architecture;
mod dense;
pub mod features;
mod file;
mod forward;
mod model;

pub use architecture::{Architecture, Part};
pub use features::{Feeding, PredecessorFeatures};
pub use file::is_predecessor_file;
pub use model::{PredecessorMetadata, PredecessorModel, scaled};
