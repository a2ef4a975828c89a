//! Timing every config of one problem, with more repeats where they matter.

mod patience;
mod policy;
mod samples;
mod session;

pub(crate) use samples::Samples;
pub(crate) use session::{Measured, measure};
