//! What the API's description says of many operations alike, added in one pass, and the check that follows from it.

use std::collections::HashSet;
use std::sync::Arc;

use axum::extract::{FromRequestParts as _, MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use utoipa::openapi::path::{Operation, ParameterIn, PathItem};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, Response as Described, ResponseBuilder};

use crate::http::{ApiFault, NoParameters, StrictQuery};

/// Completes the description of every operation.
pub(crate) fn complete(document: &mut OpenApi) {
    for (path, item) in &mut document.paths.paths {
        let is_export = ["/datasets/", "/tables/", "/comparisons/"].iter().any(|part| path.contains(part))
            || path.ends_with("/configs");
        let PathItem { get, put, post, delete, patch, .. } = item;
        if let Some(operation) = get {
            add_unchanged(operation);
            if is_export {
                add_too_many(operation);
            }
            add_errors(operation);
        }
        for operation in [put, post, delete, patch].into_iter().flatten() {
            add_too_many(operation);
            add_errors(operation);
        }
    }
}

/// Adds the answer 304 to an operation that gives JSON.
fn add_unchanged(operation: &mut Operation) {
    let responses = &mut operation.responses.responses;
    let gives_json = responses.get("200").is_some_and(|described| match described {
        RefOr::T(described) => described.content.contains_key("application/json"),
        RefOr::Ref(_) => false,
    });
    if gives_json {
        let unchanged = || ResponseBuilder::new().description("The client has it already").build();
        responses.entry("304".to_owned()).or_insert_with(|| unchanged().into());
    }
}

/// Adds the answer 429 to an operation that is counted.
fn add_too_many(operation: &mut Operation) {
    let words = "More requests than the limit; `Retry-After` and `RateLimit` say when to come back";
    let too_many = || ResponseBuilder::new().description(words).build();
    operation.responses.responses.entry("429".to_owned()).or_insert_with(|| too_many().into());
}

/// Whatever is read from a request may be wrong, whatever a path names may not be there, and every error has the
/// same body.
fn add_errors(operation: &mut Operation) {
    let reads = has(operation, &ParameterIn::Query) || operation.request_body.is_some();
    let implied = [(reads, "400"), (has(operation, &ParameterIn::Path), "404")];
    let responses = &mut operation.responses.responses;
    for (_, status) in implied.into_iter().filter(|(is_implied, _)| *is_implied) {
        responses.entry(status.to_owned()).or_insert_with(|| Described::new("").into());
    }
    for (status, described) in responses {
        if let RefOr::T(described) = described
            && matches!(status.as_bytes().first(), Some(b'4' | b'5'))
            && described.content.is_empty()
        {
            let error = ContentBuilder::new().schema(Some(Ref::from_schema_name("ApiError"))).build();
            described.content.insert("application/json".to_owned(), error.into());
        }
    }
}

/// Whether an operation has a parameter in this place.
fn has(operation: &Operation, place: &ParameterIn) -> bool {
    operation.parameters.iter().flatten().any(|parameter| match parameter {
        RefOr::T(parameter) => parameter.parameter_in == *place,
        RefOr::Ref(_) => false,
    })
}

/// The operations without parameters in the query, by method and path.
#[derive(Clone)]
pub(crate) struct WithoutParameters(Arc<HashSet<(Method, String)>>);

impl WithoutParameters {
    pub(crate) fn of(document: &OpenApi) -> Self {
        let mut found = HashSet::new();
        for (path, item) in &document.paths.paths {
            let PathItem { get, put, post, delete, patch, .. } = item;
            for (method, operation) in [
                (Method::GET, get),
                (Method::PUT, put),
                (Method::POST, post),
                (Method::DELETE, delete),
                (Method::PATCH, patch),
            ] {
                let Some(operation) = operation else { continue };
                if !has(operation, &ParameterIn::Query) {
                    found.insert((method, path.clone()));
                }
            }
        }
        Self(Arc::new(found))
    }
}

/// Refuses a query where the operation takes none, so that no mistyped filter is ignored.
pub(crate) async fn refuse_unknown_query(
    State(WithoutParameters(operations)): State<WithoutParameters>,
    request: Request,
    next: Next,
) -> Result<Response, ApiFault> {
    let method = match *request.method() {
        Method::HEAD => Method::GET,
        ref other => other.clone(),
    };
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    if path.is_some_and(|path| operations.contains(&(method, path))) {
        refuse_query(request, next).await
    } else {
        Ok(next.run(request).await)
    }
}

/// Refuses every query.
pub(crate) async fn refuse_query(request: Request, next: Next) -> Result<Response, ApiFault> {
    let (mut parts, body) = request.into_parts();
    StrictQuery::<NoParameters>::from_request_parts(&mut parts, &()).await?;
    Ok(next.run(Request::from_parts(parts, body)).await)
}
