use axum::Form;
use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse as _, Redirect, Response};
use maud::html;
use serde::de::DeserializeOwned;

use super::layout::refused;
use crate::app::App;
use crate::http::{ApiFault, small_body};

/// The longest path that is kept: far longer than any path of this server. A limit is needed, because the
/// database keeps the path while the browser is at a provider.
const LONGEST_PATH: usize = 1024;

/// The fields of a form.
pub(super) struct OwnForm<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<App> for OwnForm<T> {
    type Rejection = Response;

    async fn from_request(request: Request, app: &App) -> Result<Self, Response> {
        let (head, body) = request.into_parts();
        let bytes = small_body(&head.headers, body).await.map_err(not_understood)?;
        let request = Request::from_parts(head, Body::from(bytes));
        let form = Form::<T>::from_request(request, app).await;
        form.map(|Form(fields)| Self(fields))
            .map_err(|error| not_understood(ApiFault::invalid(error.body_text())))
    }
}

/// Only programs send such forms, not the server's own pages. So nobody loses what they typed.
fn not_understood(fault: ApiFault) -> Response {
    refused("Form not understood", fault, |said| {
        html! {
            (said)
            p class="card" { "Go back, load the page again and send its form once more." }
        }
    })
}

/// A redirect to the page that a visitor came from, if it is a page of this server.
pub(super) fn go_on(next: Option<&str>) -> Response {
    Redirect::to(own_path(next).unwrap_or("/account")).into_response()
}

/// A redirect to the sign-in page, which then leads back.
pub(super) fn sign_in_first(next: &str) -> Response {
    // No other characters in the paths of these pages need to be encoded.
    Redirect::to(&format!("/sign-in?next={}", next.replace('?', "%3F").replace('=', "%3D"))).into_response()
}

/// A path on this server. `//host` and `/\host` are refused, since they lead to another host.
pub(super) fn own_path(next: Option<&str>) -> Option<&str> {
    let plain = |path: &str| path.bytes().all(|b| b.is_ascii_graphic() && b != b'\\');
    let next = next.filter(|path| path.len() <= LONGEST_PATH && plain(path));
    next.filter(|path| path.starts_with('/') && !path.starts_with("//"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_pages_are_gone_on_to() {
        for own in ["/", "/device?code=BCDF-GHJK"] {
            assert_eq!(own_path(Some(own)), Some(own));
        }
        for other in ["", "//evil.example", "/\\evil.example", "https://evil.example", "/a\r\nb", "account"] {
            assert_eq!(own_path(Some(other)), None, "{other:?}");
        }
        let long = "/a".repeat(LONGEST_PATH);
        assert_eq!(own_path(Some(long.as_str())), None);
    }
}
