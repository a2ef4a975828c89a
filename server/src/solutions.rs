//! Solutions in their stored form, and decoded.

mod cut;
mod dataset;
mod decoded;
mod stored;

pub(crate) use cut::cut;
pub(crate) use dataset::{Rebuilt, rebuild};
pub use decoded::DecodedSolution;
pub use stored::{ConfigLists, Damaged, Decoded, Encoder, StoredConfigList, StoredSolution, StoredSolutions};
