//! One module per command.

pub(crate) mod collect;
mod collect_summary;
pub(crate) mod convert;
pub(crate) mod detect;
pub(crate) mod evaluate;
mod files;
pub(crate) mod measure_worker;
pub(crate) mod predict;
mod report;
pub(crate) mod shapes;
pub(crate) mod stats;
pub(crate) mod table;
mod table_lookup;
pub(crate) mod train;
mod training_progress;
pub(crate) mod upload;
