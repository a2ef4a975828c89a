//! Figures for operators, in the text format of Prometheus. They have their own listener, which is off by
//! default, because strangers should not see them.

mod counted;
mod listener;
mod process;
mod requests;
mod scrape;

pub use counted::Metrics;
pub(crate) use listener::{listening, tell};
pub(crate) use requests::measured;
pub use scrape::router;
