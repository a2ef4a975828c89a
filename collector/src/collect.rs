//! Collecting. Devices measure problems side by side, and files keep the results. The files stay
//! whole if the process is killed.

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
