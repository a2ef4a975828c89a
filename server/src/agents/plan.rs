//! What to measure next on a hardware. Pure: the same input and seed give the same plan.
//!
//! Problems are grouped by their [`Kind`]. First comes one problem of each kind of which nothing is known, then what
//! people want. Then come kinds for which models pick badly, results that a second contributor must confirm, and times
//! that another driver may have changed. Last come more problems of the kinds of which least is known. Kinds that
//! programs compute often tend to come before others.

mod kind;
mod planner;
mod served;

pub use kind::Order;
pub use kind::expected_seconds;
pub use kind::is_to_be_confirmed;
pub use kind::{Kind, kinds};
pub use planner::KnownProblems;
pub use planner::weakest;
pub use planner::{FIRST_RANK, LAST_RANK, Planned, Planner, breadth_of, rank};

#[cfg(test)]
mod tests;
