use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;

use super::Traces;
use crate::http::id_of;
use crate::metrics::known;

/// The data of a request that a span has. It leaves out the query, because the query of a link is a secret.
#[cfg_attr(not(feature = "traces"), expect(dead_code, reason = "nobody is told"))]
pub(crate) struct Asked<'a> {
    pub(super) method: &'static str,
    /// The template, such as `/api/v1/uploads/{id}`; `None` for files of the dashboard and unknown paths.
    pub(super) route: Option<&'a str>,
    pub(super) path: &'a str,
    /// The request's id, as in the log.
    pub(super) id: &'a str,
}

/// Makes a span for each request. The span ends when the answer begins.
pub(crate) async fn traced(State(traces): State<Traces>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let asked = Asked {
        method: known(request.method()),
        route: route.map(MatchedPath::as_str),
        path: request.uri().path(),
        id: id_of(&request),
    };
    let span = traces.request(&asked, request.headers());
    let response = next.run(request).await;
    span.answered(response.status());
    response
}
