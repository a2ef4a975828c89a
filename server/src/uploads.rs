//! Uploads: `ingest` decodes and checks the bytes, `upload_store` stores them as rows in one transaction, and
//! `standing_store` decides whether an upload counts.

pub mod ingest;
pub(crate) mod solution_store;
pub mod solutions;
pub(crate) mod standing_store;
pub(crate) mod upload_routes;
pub(crate) mod upload_store;
