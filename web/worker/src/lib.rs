//! What the dashboard does in a thread of its own: it checks files before they are sent, ranks lists, and tunes served
//! models. Pages rank a few shapes by the same code.
#![forbid(unsafe_code)]

mod check;
mod ranking;
pub mod workloads;

pub use check::check;
pub use ranking::{Line, Ranking, Row};
