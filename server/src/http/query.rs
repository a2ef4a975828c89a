//! Query parameters. Each route declares its parameters in one struct. The API's description ([`IntoParams`])
//! and the parser are made from this struct.

use std::collections::BTreeMap;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use diode_core::Invalid;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde::de::value::{Error as ValueError, MapDeserializer};
use utoipa::IntoParams;

use super::{ApiFault, ApiResult};

/// The query parameters of a request. Unknown and repeated parameters are refused, so that no mistyped filter
/// is ignored.
pub(crate) struct StrictQuery<T>(pub(crate) T);

/// The parameters of routes that take none.
#[derive(Deserialize, IntoParams)]
pub(crate) struct NoParameters {}

impl<T: DeserializeOwned + IntoParams, S: Send + Sync> FromRequestParts<S> for StrictQuery<T> {
    type Rejection = ApiFault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> ApiResult<Self> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
            .map_err(|error| ApiFault::invalid(error.to_string()))?;
        let mut given = BTreeMap::new();
        for (name, value) in pairs {
            if given.contains_key(&name) {
                return Err(ApiFault::invalid(format!("parameter `{name}`: given twice, expected once")));
            }
            // No parameter needs the character NUL, and Postgres cannot store it.
            if value.contains('\0') {
                let message =
                    format!("parameter `{name}`: got the character U+0000, expected text without it");
                return Err(ApiFault::invalid(message));
            }
            given.insert(name, value);
        }
        let known: Vec<String> = T::into_params(|| None).into_iter().map(|param| param.name).collect();
        let unknown = given.keys().find(|name| !known.contains(name)).cloned();
        let fields = MapDeserializer::<_, ValueError>::new(given.into_iter());
        let query =
            serde_path_to_error::deserialize(fields).map_err(|error| ApiFault::invalid(in_words(&error)))?;
        match unknown {
            None => Ok(Self(query)),
            Some(name) => Err(refuse(&name, &known).into()),
        }
    }
}

/// Says what is wrong with a parameter. An error without a path means that a parameter is missing.
fn in_words(error: &serde_path_to_error::Error<ValueError>) -> String {
    match error.path().to_string().as_str() {
        "." => format!("parameters: {}", error.inner()),
        path => format!("parameter `{path}`: {}", error.inner()),
    }
}

fn refuse(name: &str, known: &[String]) -> Invalid {
    let expected = match known {
        [] => "no parameters here".to_owned(),
        known => format!("one of {}", known.join(", ")),
    };
    Invalid::new("parameter", format_args!("`{name}`"), expected)
}
