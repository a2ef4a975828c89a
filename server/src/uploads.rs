//! Uploads: `ingest` takes the bytes and checks them, `upload_store` makes them rows in one transaction, and
//! `judging_store` decides whether they count.

pub mod ingest;
pub(crate) mod judging_store;
pub(crate) mod solution_store;
pub mod solutions;
pub mod storing;
pub(crate) mod upload_routes;
pub(crate) mod upload_store;
