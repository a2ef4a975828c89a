use axum::http::{HeaderMap, HeaderValue, header};
use diode_core::ids::Digest;

/// The strong entity tag of some content.
pub(crate) fn etag(digest: &Digest) -> HeaderValue {
    quoted(digest.as_str())
}

fn quoted(text: &str) -> HeaderValue {
    // Hex digits in quotes are always a valid header.
    HeaderValue::try_from(format!("\"{text}\"")).unwrap_or_else(|_| unreachable!("digests are hex"))
}

/// Whether the client holds what the tag stands for, so that 304 will do.
pub(crate) fn is_current(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let Ok(tag) = tag.to_str() else { return false };
    headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        value.split(',').map(str::trim).any(|one| one == "*" || one.trim_start_matches("W/") == tag)
    })
}

#[cfg(test)]
mod tests {
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
