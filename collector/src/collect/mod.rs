//! Collecting: problems are measured on devices side by side, and what was measured
//! is kept in files that a killed process leaves whole.

pub(crate) mod bench;
mod collection;
pub(crate) mod configs;
mod earlier;
pub(crate) mod engine;
pub(crate) mod journal;
pub(crate) mod one_problem;
pub(crate) mod output;
mod packs;
mod runner;
mod summary;
