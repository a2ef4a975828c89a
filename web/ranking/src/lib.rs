//! The best configs of a shape by a model, as the dashboard shows them. Pages use this crate for a few shapes, the
//! ranker (`web/ranker`) for a list.
#![forbid(unsafe_code)]

mod line;
mod ranking;
mod shortlist;

pub use line::{Line, Ranked, Row};
pub use ranking::Ranking;
pub use shortlist::{followed, shortlist};
