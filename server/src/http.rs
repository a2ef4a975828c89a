//! What handlers share: the types of parameters, bodies and faults, and the layers around all routes.

mod conditional;
mod fault;
mod layers;
mod request;
mod same_site;
pub(crate) mod stored_file;

pub(crate) use conditional::Wanted;
pub(crate) use conditional::{Compressible, tagged, weakened};
pub(crate) use conditional::{FileName, media};
pub(crate) use conditional::{accepts, etag, is_current, save_as, weak_etag};
pub(crate) use fault::ApiFault;
pub(crate) use layers::{around, no_token_in_url, refuse_old_programs};
pub(crate) use request::{FilteredQuery, NoParameters, StrictQuery};
pub(crate) use request::{FromPath, InPath, Lookup, lookup};
pub(crate) use request::{essence, json_body, receive, small_body};
pub(crate) use same_site::{Hosts, same_site};

/// What handlers answer.
pub(crate) type ApiResult<T> = Result<T, ApiFault>;
