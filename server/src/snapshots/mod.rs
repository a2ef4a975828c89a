//! Datasets that no longer change, so that a paper or a model's card can name one.
//!
//! Each is a set of files under their digests, and a manifest that holds these digests: who knows the
//! manifest's digest knows all bytes. Nothing is put in the place of a snapshot, and none goes by itself.

mod citation;
mod freeze;
mod parts;

pub(crate) use citation::cite;
pub(crate) use freeze::{NotFrozen, freeze};
