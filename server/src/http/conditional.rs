use std::iter::once;

use axum::http::{HeaderMap, HeaderValue};
use diode_core::ids::Digest;
use headers::{ETag, Header as _, HeaderMapExt as _, IfNoneMatch};

use super::{ApiFault, ApiResult};

/// The strong entity tag of some content.
pub(crate) fn etag(digest: &Digest) -> HeaderValue {
    // Hex digits in quotes are always a valid header.
    HeaderValue::try_from(format!("\"{digest}\"")).unwrap_or_else(|_| unreachable!("digests are hex"))
}

/// The weak entity tag of content that is sent plain or compressed, as the client wishes.
pub(crate) fn weak_etag(digest: &Digest) -> HeaderValue {
    HeaderValue::try_from(format!("W/\"{digest}\"")).unwrap_or_else(|_| unreachable!("digests are hex"))
}

/// Whether the client has the content of this tag, so that the answer can be 304.
pub(crate) fn is_current(asked: &HeaderMap, tag: &HeaderValue) -> bool {
    let wanted = asked.typed_get::<IfNoneMatch>().zip(ETag::decode(&mut once(tag)).ok());
    wanted.is_some_and(|(condition, tag)| !condition.precondition_passes(&tag))
}

/// The `Content-Disposition` of a file that a browser saves.
pub(crate) fn save_as(name: &str) -> ApiResult<HeaderValue> {
    HeaderValue::try_from(format!("attachment; filename=\"{name}\"")).map_err(ApiFault::internal)
}

#[cfg(test)]
mod tests {
    use axum::http::header;

    use super::*;

    #[test]
    fn tags_match_alone_in_lists_and_weakly() {
        let tag = etag(&Digest::of(b"x"));
        let text = tag.to_str().unwrap();
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, HeaderValue::try_from(value).unwrap());
            is_current(&headers, &tag)
        };
        assert!(with(text) && with("*") && with(&format!("\"a\", W/{text}")));
        assert!(!with("\"a\"") && !is_current(&HeaderMap::new(), &tag));
    }
}
