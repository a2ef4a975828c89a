//! Collecting: problems are measured on devices side by side, and what was measured
//! is kept in files that a killed process leaves whole.

pub(crate) mod collection;
mod journal;
pub(crate) mod runner;
pub(crate) mod summary;
