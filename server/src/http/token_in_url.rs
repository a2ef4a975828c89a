use axum::extract::Request;
use axum::http::Uri;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::ApiFault;
use crate::accounts::TOKEN_PREFIX;

/// This many hex digits after the prefix show a token. No other word that follows the prefix has so many.
const DIGITS: usize = 32;

/// Refuses requests with a token anywhere in the URL, because URLs end up in logs, histories and `Referer`.
pub(crate) async fn no_token_in_url(request: Request, next: Next) -> Response {
    if holds_token(request.uri()) {
        let fault = ApiFault::invalid(
            "a token stands in the URL, where others may read it: revoke it, and send another as \
             `Authorization: Bearer TOKEN`",
        );
        return fault.into_response();
    }
    next.run(request).await
}

fn holds_token(uri: &Uri) -> bool {
    let is_token = |rest: &str| rest.bytes().take_while(u8::is_ascii_hexdigit).count() >= DIGITS;
    uri.to_string().split(TOKEN_PREFIX).skip(1).any(is_token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_anywhere_and_words_are_none() {
        let token = format!("diode_{}", "0a".repeat(32));
        for (uri, expected) in [
            (format!("/api/v1/hardware?x={token}"), true),
            (format!("/api/v1/uploads/{token}"), true),
            (format!("/api/v1/hardware?x=diode_&y={token}"), true),
            ("/docs/torch_diode_fade".to_owned(), false),
            ("/".to_owned(), false),
        ] {
            assert_eq!(holds_token(&uri.parse().unwrap()), expected, "{uri}");
        }
    }
}
