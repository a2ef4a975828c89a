//! Solutions in the form in which the database holds them, and decoded.

mod dataset;
mod decoded;
mod stored;

pub(crate) use dataset::rebuild;
pub use decoded::DecodedSolution;
pub use stored::{ConfigLists, Damaged, StoredConfigList, StoredSolution, StoredSolutions, encode};
