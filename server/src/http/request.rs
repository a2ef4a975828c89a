//! What handlers read of a request: its parameters, and its body.
//!
//! Each route declares its parameters in one struct. The API's description ([`IntoParams`]) and the parser are made from
//! this struct. A body is read up to a limit, at a minimum speed, into memory or into a file.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Display;
use std::future::Future;
use std::io;
use std::iter::successors;
use std::str::FromStr;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use diode_api::ProblemFilter;
use diode_core::Invalid;
use headers::{ContentLength, HeaderMapExt as _};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde::de::value::{Error as ValueError, MapDeserializer};
use tokio::fs::File;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, timeout_at};
use utoipa::IntoParams;

use crate::app::App;
use crate::http::{ApiFault, ApiResult};
use crate::store::{Store, StoreResult};
use crate::turns::Turn;

/// The query parameters of a request. Unknown and repeated parameters are refused, so that no mistyped filter
/// is ignored.
pub(crate) struct StrictQuery<T>(pub(crate) T);

/// The parameters of routes that take none.
#[derive(Deserialize, IntoParams)]
pub(crate) struct NoParameters {}

/// The query parameters of a route that filters problems: its own, and the filter.
pub(crate) struct FilteredQuery<T>(pub(crate) T, pub(crate) ProblemFilter);

impl<T: DeserializeOwned + IntoParams, S: Send + Sync> FromRequestParts<S> for StrictQuery<T> {
    type Rejection = ApiFault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> ApiResult<Self> {
        let given = Given::read(parts)?;
        let query = given.parse()?;
        given.refuse_others(&names::<T>())?;
        Ok(Self(query))
    }
}

impl<T: DeserializeOwned + IntoParams, S: Send + Sync> FromRequestParts<S> for FilteredQuery<T> {
    type Rejection = ApiFault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> ApiResult<Self> {
        let given = Given::read(parts)?;
        let (own, filter) = (given.parse()?, given.parse()?);
        given.refuse_others(&[names::<ProblemFilter>(), names::<T>()].concat())?;
        Ok(Self(own, filter))
    }
}

fn names<T: IntoParams>() -> Vec<String> {
    T::into_params(|| None).into_iter().map(|param| param.name).collect()
}

/// The parameters of a request, each once.
struct Given(BTreeMap<String, String>);

impl Given {
    fn read(parts: &Parts) -> ApiResult<Self> {
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
        Ok(Self(given))
    }

    /// The parameters that a type knows.
    fn parse<T: DeserializeOwned>(&self) -> ApiResult<T> {
        let fields = self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        serde_path_to_error::deserialize(MapDeserializer::<_, ValueError>::new(fields))
            .map_err(|error| ApiFault::invalid(in_words(&error)))
    }

    fn refuse_others(&self, known: &[String]) -> ApiResult<()> {
        match self.0.keys().find(|name| !known.contains(name)) {
            None => Ok(()),
            Some(name) => Err(unknown(name, known).into()),
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

fn unknown(name: &str, known: &[String]) -> Invalid {
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

/// How slow a client may be.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// How long after the start the rate does not count.
    grace: Duration,
    /// How many bytes per second must arrive on average.
    rate: u64,
    /// The longest pause in which nothing arrives.
    stall: Duration,
}

/// At two megabits per second, the largest upload takes four minutes. The rate is a sixteenth of this speed.
const PACE: Pace = Pace { grace: Duration::from_secs(10), rate: 16 * 1024, stall: Duration::from_secs(30) };

/// Why a body was not read to its end.
#[derive(Debug)]
pub(crate) enum BodyError {
    TooLong,
    TooSlow,
    /// Others waited, and this body was the slowest.
    GaveWay,
    BrokeOff(String),
    /// The file for the body cannot be written.
    Unwritable(io::Error),
}

impl BodyError {
    /// The fault of a body that holds a file: `what` names it, `too_long` says how long it may be.
    pub(crate) fn of_file(self, what: &str, too_long: impl FnOnce() -> String) -> ApiFault {
        match self {
            Self::TooLong => ApiFault::too_large(too_long()),
            Self::TooSlow => ApiFault::too_slow(what),
            Self::GaveWay => ApiFault::busy(format!(
                "{what} arrived at less than 256 KiB/s and gave way to others who waited; send it again"
            )),
            Self::BrokeOff(error) => {
                ApiFault::invalid(format!("{what} broke off while it was read: {error}"))
            }
            Self::Unwritable(error) => ApiFault::unwritable(error),
        }
    }
}

/// Reads a body piece by piece. Stops as soon as the body is too long or too slow.
struct Reader {
    body: Limited<Body>,
    pace: Pace,
    start: Instant,
    received: u64,
}

impl Reader {
    fn new(headers: &HeaderMap, body: Body, limit: usize, pace: Pace) -> Result<Self, BodyError> {
        let claimed = headers.typed_get::<ContentLength>();
        if claimed.is_some_and(|ContentLength(length)| length > limit as u64) {
            return Err(BodyError::TooLong);
        }
        Ok(Self { body: Limited::new(body, limit), pace, start: Instant::now(), received: 0 })
    }

    /// The next piece; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            let earned = Duration::from_secs(self.received / self.pace.rate);
            let deadline = (self.start + self.pace.grace + earned).min(Instant::now() + self.pace.stall);
            let frame = timeout_at(deadline, self.body.frame()).await.map_err(|_| BodyError::TooSlow)?;
            let Some(frame) = frame else { return Ok(None) };
            // Frames without data are trailers, which are ignored.
            let Ok(piece) = frame.map_err(broken)?.into_data() else { continue };
            self.received += piece.len() as u64;
            return Ok(Some(piece));
        }
    }
}

fn broken(error: Box<dyn Error + Send + Sync>) -> BodyError {
    let error: &(dyn Error + 'static) = error.as_ref();
    let too_long =
        successors(Some(error), |&cause| cause.source()).any(|cause| cause.is::<LengthLimitError>());
    if too_long { BodyError::TooLong } else { BodyError::BrokeOff(error.to_string()) }
}

/// Writes a body to a file, so that a slow client takes no memory.
pub(crate) async fn receive(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
    turn: Option<&Turn>,
    file: &mut File,
) -> Result<(), BodyError> {
    let mut reader = Reader::new(headers, body, limit, PACE)?;
    loop {
        let piece = match turn {
            None => reader.next().await?,
            Some(turn) => tokio::select! {
                piece = reader.next() => piece?,
                () = turn.gives_way() => return Err(BodyError::GaveWay),
            },
        };
        let Some(piece) = piece else { break };
        if let Some(turn) = turn {
            turn.received(piece.len() as u64);
        }
        file.write_all(&piece).await.map_err(BodyError::Unwritable)?;
    }
    if let Some(turn) = turn {
        turn.complete();
    }
    file.flush().await.map_err(BodyError::Unwritable)
}

/// Reads a short body into memory.
pub(crate) async fn small_body(headers: &HeaderMap, body: Body) -> ApiResult<Vec<u8>> {
    /// The most bytes of a short body. Only requests that send a file are longer.
    const MAX_BYTES: usize = 64 * 1024;
    let read = async {
        let mut reader = Reader::new(headers, body, MAX_BYTES, PACE)?;
        let mut bytes = Vec::new();
        while let Some(piece) = reader.next().await? {
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    };
    read.await.map_err(|error: BodyError| {
        error.of_file("the body", || format!("the body exceeds {MAX_BYTES} bytes"))
    })
}

/// A small JSON document in the body of a request.
pub(crate) async fn json_body<T: DeserializeOwned>(headers: &HeaderMap, body: Body) -> ApiResult<T> {
    let media = headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default());
    if media.is_some_and(|media| essence(media) != "application/json") {
        return Err(ApiFault::unsupported_media(format!(
            "Content-Type: got `{}`, expected application/json",
            media.unwrap_or_default()
        )));
    }
    let bytes = small_body(headers, body).await?;
    serde_json::from_slice(&bytes)
        .map_err(|error| ApiFault::invalid(format!("the body is not the JSON expected here: {error}")))
}

/// A media type without its parameters.
pub(crate) fn essence(media: &str) -> String {
    media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;

    use super::*;

    const BRISK: Pace = Pace { grace: Duration::from_millis(300), rate: 1000, stall: Duration::from_secs(2) };

    /// A body of `pieces` pieces, each of `bytes` bytes, one every 50 ms.
    fn drip(pieces: usize, bytes: usize) -> Body {
        let piece = Bytes::from(vec![b' '; bytes]);
        Body::from_stream(stream::unfold((0, piece), move |(sent, piece)| async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            (sent < pieces).then(|| (Ok::<_, Infallible>(piece.clone()), (sent + 1, piece)))
        }))
    }

    async fn read(body: Body) -> Result<u64, BodyError> {
        let mut reader = Reader::new(&HeaderMap::new(), body, 1 << 20, BRISK)?;
        while reader.next().await?.is_some() {}
        Ok(reader.received)
    }

    #[tokio::test]
    async fn a_client_may_be_slow_but_not_that_slow() {
        assert_eq!(read(drip(20, 1000)).await.unwrap(), 20_000);
        let start = Instant::now();
        assert!(matches!(read(drip(usize::MAX, 1)).await, Err(BodyError::TooSlow)));
        assert!(start.elapsed() < Duration::from_secs(10));
        let silent = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        assert!(matches!(read(silent).await, Err(BodyError::TooSlow)));
    }
}
