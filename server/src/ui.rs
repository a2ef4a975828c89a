//! The dashboard and the documentation, embedded in the program. Without them the server still works, and
//! says how to build them.

mod early;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use diode_core::ids::Digest;
use maud::html;
use rust_embed::{EmbeddedFile, RustEmbed};

use crate::app::App;
use crate::http::{ApiFault, accepts, etag, is_current, weak_etag};
use crate::pages::page;
use crate::ui::early::Front;

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
    // Names of served models have dots, too.
    let is_model = name.strip_prefix("workloads/").is_some_and(|name| early::workload(name).is_some());
    if !is_model && name.rsplit('/').next().is_some_and(|last| last.contains('.')) {
        return ApiFault::not_found(format!("no file `{path}`; the dashboard begins at /")).into_response();
    }
    let front = Front::of(&app, path).await;
    let is_known = front.is_some();
    let Some(index) = Dashboard::get("index.html").map(bytes) else {
        let mut response = not_built("dashboard", "cargo xtask web", WITHOUT_DASHBOARD);
        *response.status_mut() = if is_known { StatusCode::OK } else { StatusCode::NOT_FOUND };
        return response;
    };
    let here = format!("{}{path}", app.policy().public_url);
    let page = front.unwrap_or_else(Front::missing).put_into(
        &String::from_utf8_lossy(&index),
        &here,
        path,
        &headers,
    );
    let caching = [
        (header::CACHE_CONTROL, HeaderValue::from_static(ASK_AGAIN)),
        (header::VARY, HeaderValue::from_static("accept-encoding, cookie")),
    ];
    if !is_known {
        // The dashboard's page also says that there is nothing at this path, and has links to other pages. With a tag, a
        // browser would keep this status after the page's subject has come into being.
        return (StatusCode::NOT_FOUND, caching, Html(page)).into_response();
    }
    let tag = weak_etag(&Digest::of(page.as_bytes()));
    let tagged = [(header::ETAG, tag.clone())];
    if is_current(&headers, &tag) {
        return (StatusCode::NOT_MODIFIED, caching, tagged).into_response();
    }
    (caching, tagged, Html(page)).into_response()
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

/// The files that `cargo xtask web` has written, each also with `.br` and `.gz` after its name. A release
/// includes them. A debug build reads them from their folder, so that the server need not be built again
/// after the dashboard.
#[derive(RustEmbed)]
#[folder = "../web/dist"]
#[allow_missing = true]
struct Dashboard;

/// For files whose name has a hash: their content never changes.
const FOREVER: &str = "public, max-age=31536000, immutable";
/// For files with other names: their content may change, so clients ask each time.
const ASK_AGAIN: &str = "no-cache";

/// The compressed forms, the smallest first: the coding and the file extension.
const ENCODINGS: [(&str, &str); 2] = [("br", ".br"), ("gzip", ".gz")];

/// The files that `cargo xtask docs` has written.
#[derive(RustEmbed)]
#[folder = "../docs/book"]
#[allow_missing = true]
struct Book;

/// An embedded file in an encoding that the client accepts.
struct Asset {
    bytes: Bytes,
    digest: Digest,
    content_type: HeaderValue,
    encoding: Option<&'static str>,
    cache_control: &'static str,
}

impl Asset {
    /// The file with a name among `Files`; `None` if there is none.
    fn find<Files: RustEmbed>(name: &str, headers: &HeaderMap) -> Option<Self> {
        let plain = Files::get(name)?;
        let content_type = HeaderValue::from_str(plain.metadata.mimetype());
        let compressed = ENCODINGS
            .iter()
            .filter(|(coding, _)| accepts(headers, coding))
            .find_map(|(coding, extension)| Some((*coding, Files::get(&format!("{name}{extension}"))?)));
        let (encoding, file) = match compressed {
            Some((coding, file)) => (Some(coding), file),
            None => (None, plain),
        };
        Some(Self {
            digest: Digest::from_hash(file.metadata.sha256_hash()),
            bytes: bytes(file),
            content_type: content_type.unwrap_or(HeaderValue::from_static("application/octet-stream")),
            encoding,
            cache_control: if is_hashed(name) { FOREVER } else { ASK_AGAIN },
        })
    }
}

fn bytes(file: EmbeddedFile) -> Bytes {
    match file.data {
        std::borrow::Cow::Borrowed(embedded) => Bytes::from_static(embedded),
        std::borrow::Cow::Owned(read) => Bytes::from(read),
    }
}

/// Whether the file or one of its folders has a name such as `STEM-HASH.EXTENSION` or `STEM-HASH`. A hash has
/// at least eight hex digits.
fn is_hashed(path: &str) -> bool {
    const MIN_HASH: usize = 8;
    path.split('/').any(|name| {
        let stem = name.split('.').next().unwrap_or_default();
        let Some((_, hash)) = stem.rsplit_once('-') else { return false };
        hash.len() >= MIN_HASH && hash.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

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
            let content = html! {
                p { "Its pages are Markdown files in Diode's source code, in the folder " code { "docs/" } "." }
                p { a href="/" { "Overview" } " · " a href="/contribute" { "Contribute" } }
                p class="hint" {
                    "Whoever runs this server builds the book with " code { "cargo xtask docs" } ", then the server again."
                }
            };
            page("This server has no documentation", &content)
        }
        None => ApiFault::not_found(format!("no page `/docs/{name}`; the documentation begins at /docs/"))
            .into_response(),
    };
    let policy = HeaderValue::from_static(CONTENT_SECURITY_POLICY);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}

#[cfg(test)]
mod assets_tests {
    use super::*;

    #[test]
    fn only_hashed_names_are_kept_forever() {
        assert!(is_hashed("app-0123abcd.wasm") && is_hashed("assets/app-00112233445566.js"));
        assert!(is_hashed("app-0123abcd/app.js") && !is_hashed("app-01/app.js"));
        assert!(!is_hashed("index.html") && !is_hashed("app.js") && !is_hashed("dark-mode.css"));
    }
}
