//! What handlers share: parameters and bodies in, faults out, and the layers
//! around them.

mod body;
mod conditional;
mod fault;
mod known;
mod layers;
mod query;

pub(crate) use body::{BodyError, json_body, read_body};
pub(crate) use conditional::{MadeFile, etag, is_current, save_as};
pub(crate) use fault::ApiFault;
pub(crate) use known::{Known, Lookup, lookup};
pub(crate) use layers::around;
pub(crate) use query::{NoParameters, StrictQuery};

/// What handlers answer.
pub(crate) type ApiResult<T> = Result<T, ApiFault>;
