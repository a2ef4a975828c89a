use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, Response, ResponseBuilder};

/// Adds the answer 429 to the description of every operation that is counted, so that no route lacks it.
pub(crate) fn describe(document: &mut OpenApi) {
    for (path, item) in &mut document.paths.paths {
        let is_export = ["/datasets/", "/tables/", "/comparisons/"].iter().any(|part| path.contains(part))
            || path.ends_with("/configs");
        let PathItem { get, put, post, delete, patch, .. } = item;
        let changes = [put, post, delete, patch].into_iter();
        for operation in changes.chain(is_export.then_some(get)).flatten() {
            add(operation);
        }
    }
}

fn add(operation: &mut Operation) {
    operation.responses.responses.entry("429".to_owned()).or_insert_with(|| too_many().into());
}

fn too_many() -> Response {
    let error = ContentBuilder::new().schema(Some(Ref::from_schema_name("ApiError"))).build();
    ResponseBuilder::new()
        .description("More requests than the limit; `Retry-After` and `RateLimit` say when to come back")
        .content("application/json", error)
        .build()
}
