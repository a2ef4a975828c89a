use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, header};
use diode_core::ids::Digest;
use rust_embed::{EmbeddedFile, RustEmbed};

/// The files that `cargo xtask web` has written, each also with `.br` and `.gz` after its name. A release
/// includes them. A debug build reads them from their folder, so that the server need not be built again
/// after the dashboard.
#[derive(RustEmbed)]
#[folder = "../web/dist"]
#[allow_missing = true]
pub(super) struct Dashboard;

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
pub(super) struct Book;

/// An embedded file in an encoding that the client accepts.
pub(super) struct Asset {
    pub(super) bytes: Bytes,
    pub(super) digest: Digest,
    pub(super) content_type: HeaderValue,
    pub(super) encoding: Option<&'static str>,
    pub(super) cache_control: &'static str,
}

impl Asset {
    /// The file with a name among `Files`; `None` if there is none.
    pub(super) fn find<Files: RustEmbed>(name: &str, headers: &HeaderMap) -> Option<Self> {
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

/// Whether `Accept-Encoding` names a coding with another weight than 0.
fn accepts(headers: &HeaderMap, coding: &str) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|one| {
        let mut parts = one.split(';').map(str::trim);
        let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(coding));
        let refused = parts.filter_map(|p| p.strip_prefix("q=")).any(|q| q.parse() == Ok(0.0));
        named && !refused
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hashed_names_are_kept_forever() {
        assert!(is_hashed("app-0123abcd.wasm") && is_hashed("assets/app-00112233445566.js"));
        assert!(is_hashed("app-0123abcd/app.js") && !is_hashed("app-01/app.js"));
        assert!(!is_hashed("index.html") && !is_hashed("app.js") && !is_hashed("dark-mode.css"));
    }

    #[test]
    fn encodings_are_negotiated() {
        let mut headers = HeaderMap::new();
        assert!(!accepts(&headers, "br"));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip, br;q=0, zstd"));
        assert!(accepts(&headers, "gzip"));
        assert!(!accepts(&headers, "br"));
    }
}
