//! Query parameters. Each route declares its parameters in one struct. The API's description ([`IntoParams`])
//! and the parser are made from this struct.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::Future;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use diode_core::Invalid;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde::de::value::{Error as ValueError, MapDeserializer};
use utoipa::IntoParams;

use crate::app::App;
use crate::http::{ApiFault, ApiResult};
use crate::store::{Store, StoreResult};

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

/// The thing whose id is in the path. If it does not exist, the request fails with 404 and a hint.
pub(crate) struct FromPath<T>(pub(crate) T);

/// The names in the path, unchanged.
pub(crate) struct InPath<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for InPath<T> {
    type Rejection = ApiFault;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> ApiResult<Self> {
        let path = Path::<T>::from_request_parts(parts, app).await;
        path.map(|Path(names)| Self(names)).map_err(|error| ApiFault::invalid(error.body_text()))
    }
}

/// A thing that can be looked up by an id in a path.
pub(crate) trait Lookup: Sized {
    type Id: FromStr<Err = Invalid> + Display + Send + Sync;

    /// The name of the kind in the message "no `KIND` by this id".
    const KIND: &'static str;

    /// Says where the existing ids are listed.
    const HINT: &'static str;

    fn find(store: &Store, id: &Self::Id) -> impl Future<Output = StoreResult<Option<Self>>> + Send;
}

impl<T: Lookup> FromRequestParts<App> for FromPath<T> {
    type Rejection = ApiFault;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> ApiResult<Self> {
        let InPath(id) = InPath::<String>::from_request_parts(parts, app).await?;
        lookup(app, &id).await.map(Self)
    }
}

/// Looks a thing up by an id that is only a part of the path's last name. An id that cannot be parsed counts as
/// an id that does not exist.
pub(crate) async fn lookup<T: Lookup>(app: &App, id: &str) -> ApiResult<T> {
    let hint = T::HINT;
    let id: T::Id = id.parse().map_err(|error| ApiFault::not_found(format!("{error}; {hint}")))?;
    let found = T::find(app.backend.store.as_ref(), &id).await?;
    found.ok_or_else(|| ApiFault::not_found(format!("no {} `{id}`; {hint}", T::KIND)))
}
