use axum::extract::{FromRequestParts as _, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::{Client, Limits, Rate, admit};
use crate::app::App;

/// Counts requests that change something, and comparisons, which read many timings for each answer.
pub(crate) async fn rated(State(app): State<App>, request: Request, next: Next) -> Response {
    let Some(rate) = rate_of(&app.policy().limits, request.method(), request.uri().path()) else {
        return next.run(request).await;
    };
    let (mut parts, body) = request.into_parts();
    let Ok(Client(client)) = Client::from_request_parts(&mut parts, &app).await;
    let left = match admit(&app, &format!("{} of {client}", rate.name), &rate).await {
        Ok(left) => left,
        Err(fault) => return fault.into_response(),
    };
    let mut response = next.run(Request::from_parts(parts, body)).await;
    // The handler's own limit is stricter, so the client learns of that limit.
    if !response.headers().contains_key("ratelimit") {
        left.tell(response.headers_mut());
    }
    response
}

fn rate_of(limits: &Limits, method: &Method, path: &str) -> Option<Rate> {
    if method.is_safe() {
        return path.starts_with("/api/v1/comparisons/").then(|| limits.exports())?;
    }
    let is_result = path.starts_with("/api/v1/agents/") && path.ends_with("/results");
    let is_file = is_result || matches!(path, "/api/v1/uploads" | "/api/v1/models");
    if is_file { limits.uploads() } else { limits.changes() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_and_other_changes_are_told_apart() {
        let of = |method, path| rate_of(&Limits::PUBLIC, &method, path).map(|rate| rate.name);
        assert_eq!(of(Method::POST, "/api/v1/uploads"), Some("uploads"));
        assert_eq!(of(Method::POST, "/api/v1/models"), Some("uploads"));
        assert_eq!(of(Method::POST, "/api/v1/agents/a/leases/b/results"), Some("uploads"));
        assert_eq!(of(Method::POST, "/api/v1/agents/a/leases"), Some("changes"));
        assert_eq!(of(Method::POST, "/sign-in"), Some("changes"));
        assert_eq!(of(Method::DELETE, "/api/v1/jobs/a"), Some("changes"));
        assert_eq!(of(Method::GET, "/api/v1/uploads"), None);
        assert_eq!(of(Method::GET, "/api/v1/comparisons/uploads"), Some("exports"));
        assert_eq!(rate_of(&Limits::default(), &Method::POST, "/api/v1/uploads"), None);
    }
}
