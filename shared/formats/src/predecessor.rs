//! The files of torch-diode, which Diode succeeds: datasets, lookup tables, shape sets, reference
//! configs and the checkpoints of its models.

pub(crate) mod checkpoint;
mod config;
pub(crate) mod lookup_table;
pub(crate) mod reference_configs;
mod shape;
pub(crate) mod shape_set;
pub(crate) mod tree;
