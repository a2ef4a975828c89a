//! Models: those that the server has trained or was released with, which of them is published, and those that people
//! contribute.

pub(crate) mod contribution_routes;
pub(crate) mod contribution_store;
pub(crate) mod model_routes;
pub(crate) mod model_store;
pub(crate) mod publication_store;
