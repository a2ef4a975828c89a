//! What commands read: flags, problems, datasets, tables and models.

pub(crate) mod arguments;
pub(crate) mod computable;
pub(crate) mod datasets;
pub(crate) mod generator;
pub(crate) mod models;
pub(crate) mod problems;
pub(crate) mod published;
pub(crate) mod tables;
