//! What handlers share: parameters in, faults out, and the layers around them.

mod conditional;
mod fault;
mod layers;
mod params;

pub(crate) use conditional::{etag, is_current};
pub(crate) use fault::ApiFault;
pub(crate) use layers::around;
pub(crate) use params::{Params, from_path, json_body};

/// What handlers answer.
pub(crate) type ApiResult<T> = Result<T, ApiFault>;
