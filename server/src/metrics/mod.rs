//! Figures for operators, in the text that Prometheus reads. They have a listener of their own, which is off
//! by default: they tell more than strangers should know.

mod counted;
mod listener;
mod process;
mod requests;
mod scrape;

pub use counted::Metrics;
pub(crate) use listener::{listening, tell};
pub(crate) use requests::{known, measured};
pub use scrape::router;
