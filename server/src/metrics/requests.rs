use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;

use super::Metrics;

/// The label for files of the dashboard and for paths without a route.
const NO_ROUTE: &str = "other";

/// Counts each request, and the time until its answer begins.
pub(crate) async fn measured(State(metrics): State<Metrics>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = known(request.method());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let route = route.as_ref().map_or(NO_ROUTE, MatchedPath::as_str);
    metrics.request(method, route, response.status().as_u16(), began.elapsed());
    response
}

/// The label of a method. Clients may make up methods, which would make too many labels.
fn known(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        _ => "other",
    }
}
