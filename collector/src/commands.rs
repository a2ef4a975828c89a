//! One module per command: its flags and what the command does.

pub(crate) mod agent;
pub(crate) mod collect;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod datasets;
pub(crate) mod detect;
pub(crate) mod evaluate;
pub(crate) mod import;
pub(crate) mod kernels;
pub(crate) mod login;
pub(crate) mod models;
pub(crate) mod predecessor;
pub(crate) mod predecessor_collecting;
pub(crate) mod predict;
pub(crate) mod prediction;
pub(crate) mod shapes;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod table;
pub(crate) mod train;
pub(crate) mod tune;
pub(crate) mod upload;
pub(crate) mod want;
