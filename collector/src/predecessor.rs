//! torch-diode, the Python system that Diode succeeds: its commands, its flags, and datasets in its
//! formats.

pub(crate) mod collect_and_train;
pub(crate) mod collect_shapeset;
mod collecting;
pub(crate) mod convert_json_to_msgpack;
pub(crate) mod create_validation;
pub(crate) mod datasets;
pub(crate) mod flags;
pub(crate) mod leading_flags;
mod prediction_errors;
pub(crate) mod training;
pub(crate) mod validate_max_autotune;
pub(crate) mod validate_model;
