//! The documentation under `/docs`, embedded like the dashboard.

use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};

use super::assets::{Asset, Book};
use super::{not_built, respond};
use crate::http::ApiFault;

/// What to read if the book is not built.
const WITHOUT_BOOK: &str = "The same pages are Markdown files in the folder <code>docs/</code>.";

/// mdBook's pages need inline scripts for their theme. That is safe, because the pages are made only from
/// files of this repository and never from what users send.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; script-src 'self' 'unsafe-inline'; \
     style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; base-uri 'self'; \
     frame-ancestors 'none'; form-action 'self'";

/// A page of the book, or a file that it needs.
pub(crate) async fn docs(uri: Uri, headers: HeaderMap) -> Response {
    let Some(name) = uri.path().strip_prefix("/docs/") else {
        // Links in the book are relative, so its address must end in a slash.
        return Redirect::permanent("/docs/").into_response();
    };
    let name = if name.is_empty() || name.ends_with('/') { format!("{name}index.html") } else { name.into() };
    let mut response = match Asset::find::<Book>(&name, &headers) {
        Some(asset) => respond(asset, &headers),
        None if Asset::find::<Book>("index.html", &headers).is_none() => {
            not_built("documentation", "cargo xtask docs", WITHOUT_BOOK)
        }
        None => ApiFault::not_found(format!("no page `/docs/{name}`; the documentation begins at /docs/"))
            .into_response(),
    };
    let policy = HeaderValue::from_static(CONTENT_SECURITY_POLICY);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}
