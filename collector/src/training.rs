//! Trains a model on datasets.

pub(crate) mod progress;
mod ranking_model;
pub(crate) mod recipe;
pub(crate) mod trained;
