use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use diode_core::Invalid;
use serde::de::DeserializeOwned;

use super::{ApiFault, ApiResult};

/// The query parameters of a request. Taking those a route knows leaves those
/// it does not, and a mistyped filter is refused instead of ignored.
#[derive(Debug)]
pub(crate) struct Params {
    given: BTreeMap<String, String>,
    known: Vec<&'static str>,
}

impl Params {
    /// A parameter by the vocabulary's own rules; `None` if it is not given.
    pub(crate) fn take<T: FromStr<Err: Display>>(&mut self, name: &'static str) -> ApiResult<Option<T>> {
        self.known.push(name);
        let Some(text) = self.given.remove(name) else { return Ok(None) };
        let value = text.parse();
        value.map(Some).map_err(|error: T::Err| ApiFault::invalid(format!("parameter `{name}`: {error}")))
    }

    /// A whole number within a range.
    pub(crate) fn number(
        &mut self,
        name: &'static str,
        range: std::ops::RangeInclusive<u64>,
    ) -> ApiResult<Option<u64>> {
        self.known.push(name);
        let Some(text) = self.given.remove(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| range.contains(number));
        let refuse = || {
            let expected = format!("a whole number from {} to {}", range.start(), range.end());
            Invalid::new(format!("parameter `{name}`"), format_args!("`{text}`"), expected).into()
        };
        number.map(Some).ok_or_else(refuse)
    }

    /// Refuses what no `take` asked for.
    pub(crate) fn finish(self) -> ApiResult<()> {
        let Some(name) = self.given.keys().next() else { return Ok(()) };
        let known = match self.known.as_slice() {
            [] => "no parameters here".to_owned(),
            known => format!("one of {}", known.join(", ")),
        };
        Err(Invalid::new("parameter", format_args!("`{name}`"), known).into())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = ApiFault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> ApiResult<Self> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
            .map_err(|error| ApiFault::invalid(error.to_string()))?;
        let mut given = BTreeMap::new();
        for (name, value) in pairs {
            if given.contains_key(&name) {
                return Err(ApiFault::invalid(format!("parameter `{name}`: given twice, expected once")));
            }
            given.insert(name, value);
        }
        Ok(Self { given, known: Vec::new() })
    }
}

/// Something named in the path. What is not even a name of its kind does not
/// exist either; `hint` says where to look.
pub(crate) fn from_path<T: FromStr<Err = Invalid>>(text: &str, hint: &str) -> ApiResult<T> {
    text.parse().map_err(|error| ApiFault::not_found(format!("{error}; {hint}")))
}

/// A small JSON document in the body of a request.
pub(crate) async fn json_body<T: DeserializeOwned>(body: Body) -> ApiResult<T> {
    /// No request for anything is longer; datasets go to `/uploads`.
    const MAX_BYTES: usize = 64 * 1024;
    let bytes = to_bytes(body, MAX_BYTES).await;
    let bytes = bytes.map_err(|_| {
        ApiFault::too_large(format!("the body could not be read or exceeds {MAX_BYTES} bytes"))
    })?;
    serde_json::from_slice(&bytes)
        .map_err(|error| ApiFault::invalid(format!("the body is not the JSON expected here: {error}")))
}
