//! Training a model on datasets.

pub(crate) mod progress;
pub(crate) mod recipe;
