//! What to measure next on a hardware. Pure: the same input and seed give the same plan.
//!
//! Problems are grouped by their [`Kind`]. First comes one problem of each kind of which nothing is known, then what
//! people want. Then come kinds for which models pick badly, results that a second contributor must confirm, and times
//! that another driver may have changed. Last come more problems of the kinds of which least is known. Kinds that
//! programs compute often tend to come before others.

mod cells;
mod confirmed;
mod cost;
mod draw;
mod kind;
mod known;
mod order;
mod planner;
mod size;
mod weak;

pub use confirmed::is_to_be_confirmed;
pub use cost::expected_seconds;
pub(super) use kind::DTYPES;
pub use kind::{Kind, kinds};
pub use known::KnownProblems;
pub use order::Order;
pub use planner::{FIRST_RANK, LAST_RANK, Planned, Planner, breadth_of, rank};
pub use weak::weakest;

#[cfg(test)]
mod tests;
