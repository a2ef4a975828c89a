//! Training a model on datasets.

pub(crate) mod progress;
mod ranking;
pub(crate) mod recipe;
pub(crate) mod trained;
