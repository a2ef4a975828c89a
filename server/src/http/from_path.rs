use std::fmt::Display;
use std::future::Future;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use diode_core::Invalid;
use serde::de::DeserializeOwned;

use super::{ApiFault, ApiResult};
use crate::app::App;
use crate::store::{Store, StoreResult};

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
