//! Agents measure what the server asks for. [`plan`] says what comes next; here it is handed out.

mod coverage;
mod hand_out;
pub mod plan;

pub(crate) use coverage::coverage;
pub(crate) use hand_out::hand_out;

/// Decides the plan of every hardware. The same for all, so that they are measured on the same problems.
const SEED: u64 = 1;
