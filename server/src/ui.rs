//! The dashboard and the documentation, embedded in the program. Without them the server still works, and
//! says how to build them.

mod assets;
mod docs;
mod pages;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Response};

use crate::app::App;
use crate::http::{ApiFault, etag, is_current};
use assets::{Asset, Dashboard};
pub(crate) use docs::docs;

/// What to read if the dashboard is not built.
const WITHOUT_DASHBOARD: &str = "The API works without it: \
     <a href=\"/api/v1/openapi.json\">/api/v1/openapi.json</a> describes it, \
     <a href=\"/api/v1/hardware\">/api/v1/hardware</a> is a good place to begin.";

/// The fallback of the router: a file of the dashboard, or one of its pages.
pub(crate) async fn serve(State(app): State<App>, method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path();
    if path == "/api" || path.starts_with("/api/") {
        let hint = "/api/v1/openapi.json lists what there is";
        return ApiFault::not_found(format!("no `{path}` in the API; {hint}")).into_response();
    }
    if !matches!(method, Method::GET | Method::HEAD) {
        return ApiFault::method_not_allowed(format!("{method} {path}: pages can only be read"))
            .into_response();
    }
    let name = path.trim_start_matches('/');
    if let Some(asset) = Asset::find::<Dashboard>(name, &headers) {
        return respond(asset, &headers);
    }
    if name.rsplit('/').next().is_some_and(|last| last.contains('.')) {
        return ApiFault::not_found(format!("no file `{path}`; the dashboard begins at /")).into_response();
    }
    let known = pages::exists(&app, path).await;
    // An unknown page must not be answered with 304, so the client's conditions are ignored.
    let conditions = if known { headers.clone() } else { HeaderMap::new() };
    let mut response = match Asset::find::<Dashboard>("index.html", &headers) {
        Some(index) => respond(index, &conditions),
        None => not_built("dashboard", "cargo xtask web", WITHOUT_DASHBOARD),
    };
    if !known {
        // The dashboard's page also says that there is nothing at this path, and has links to other pages.
        *response.status_mut() = StatusCode::NOT_FOUND;
        // With a tag, a browser would keep this status after the page's subject has come into being.
        response.headers_mut().remove(header::ETAG);
    }
    response
}

/// A page that says how to build what is missing, and what to read meanwhile.
fn not_built(what: &str, command: &str, meanwhile: &str) -> Response {
    let page = include_str!("ui/not_built.html")
        .replace("{what}", what)
        .replace("{command}", command)
        .replace("{meanwhile}", meanwhile);
    ([(header::CACHE_CONTROL, "no-cache")], Html(page)).into_response()
}

fn respond(asset: Asset, headers: &HeaderMap) -> Response {
    let tag = etag(&asset.digest);
    let caching = [
        (header::ETAG, tag.clone()),
        (header::VARY, HeaderValue::from_static("accept-encoding")),
        (header::CACHE_CONTROL, HeaderValue::from_static(asset.cache_control)),
    ];
    if is_current(headers, &tag) {
        return (StatusCode::NOT_MODIFIED, caching).into_response();
    }
    let mut response = (caching, Body::from(asset.bytes)).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, asset.content_type);
    if let Some(encoding) = asset.encoding {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    response
}
