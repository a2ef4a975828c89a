//! Datasets that no longer change, so that a paper or a model's card can name them.
//!
//! A snapshot is a set of files, stored under their digests, and a manifest with these digests. So the
//! manifest's digest fixes every byte. A snapshot is never replaced, and only an administrator removes one.

mod freeze;
pub(crate) mod snapshot_routes;
pub(crate) mod snapshot_store;

pub(crate) use freeze::{NotFrozen, freeze};
