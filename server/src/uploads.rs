//! Uploads: `ingest` decodes and checks the bytes, `upload_store` stores them as rows in one transaction, and
//! `judging_store` decides whether an upload counts.

pub mod ingest;
pub(crate) mod judging_store;
pub(crate) mod solution_store;
pub mod solutions;
pub mod storing;
pub(crate) mod upload_routes;
pub(crate) mod upload_store;
