//! Comparisons of hardware, uploads, libraries, methods and models on the problems that both sides share.

pub(crate) mod compare_routes;
pub(crate) mod compare_store;
pub(crate) mod ratios;
