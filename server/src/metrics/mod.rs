//! Figures for operators, in the text that Prometheus reads. They have a listener of their own, which is off
//! by default: they tell more than strangers should know.

mod counted;
mod measured;
mod process;
mod scrape;
mod tell;

pub use counted::Metrics;
pub(crate) use measured::{known, measured};
pub use scrape::router;
pub(crate) use tell::tell;
