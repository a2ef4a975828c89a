//! What handlers share: the types of parameters, bodies and faults, and the layers around all routes.

mod body;
mod conditional;
mod fault;
mod file_name;
mod from_path;
mod layers;
mod query;
mod range;
mod request_id;
mod same_site;
mod tagged;
mod token_in_url;
pub(crate) mod versions;

pub(crate) use body::{BodyError, PACE, essence, json_body, receive, small_body};
pub(crate) use conditional::{etag, is_current, save_as, weak_etag};
pub(crate) use fault::ApiFault;
pub(crate) use file_name::{FileName, media};
pub(crate) use from_path::{FromPath, InPath, Lookup, lookup};
pub(crate) use layers::around;
pub(crate) use query::{NoParameters, StrictQuery};
pub(crate) use range::Wanted;
pub(crate) use same_site::{Hosts, same_site};
pub(crate) use tagged::{describe_unchanged, tagged, weakened};
pub(crate) use token_in_url::no_token_in_url;

/// What handlers answer.
pub(crate) type ApiResult<T> = Result<T, ApiFault>;
