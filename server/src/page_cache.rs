//! Answers in the form in which they are sent. Each is kept as long as the data that it was made of does not change.
//! So the same answer for the next client, and the answer "unchanged", need only one small query. Long answers are kept
//! compressed: a problem's thousand configs take a tenth of their JSON. Besides, results that were computed from a
//! hardware's entries, and that are valid until these change.

use std::collections::HashMap;
use std::fmt::Debug;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use diode_core::ids::{Digest, HardwareSlug};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::http::{ApiFault, ApiResult, accepts, is_current, weak_etag};

/// The most bytes of all kept answers together: about a thousand pages.
const MAX_KEPT: u64 = 48 << 20;

/// About how many answers are kept.
const USUALLY_KEPT: usize = 2048;

/// JSON of this length or more is compressed. Compressing takes longer than it saves if the answer is asked for once, as
/// most pages of boards are.
const LONG: usize = 64 << 10;

/// Fast; higher levels gain little on JSON.
const LEVEL: i32 = 1;

/// A question about a hardware, in one state of its data.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PageKey {
    slug: HardwareSlug,
    asked: String,
}

impl PageKey {
    /// `asked` has everything that the answer depends on, including the kind of question and the state of the data.
    pub(crate) fn new(slug: HardwareSlug, asked: &impl Debug) -> Self {
        Self { slug, asked: format!("{asked:?}") }
    }
}

/// JSON with its tag. The same JSON has the same tag on every server.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    tag: HeaderValue,
    bytes: Bytes,
    /// The length of the JSON, if the bytes are compressed with Zstandard.
    unpacked: Option<usize>,
}

impl Page {
    fn of(value: &impl serde::Serialize) -> ApiResult<Self> {
        Self::of_json(serde_json::to_vec(value).map_err(ApiFault::internal)?)
    }

    /// Long JSON takes a millisecond, so it must not be packed on an async thread.
    pub(crate) fn of_json(json: Vec<u8>) -> ApiResult<Self> {
        let tag = weak_etag(&Digest::of(&json));
        let packed = match json.len() {
            0..LONG => None,
            _ => Some(zstd::bulk::compress(&json, LEVEL).map_err(ApiFault::internal)?),
        };
        let unpacked = packed.is_some().then_some(json.len());
        // A copy, because the vector has room for more: a compressed one for as much as was compressed.
        Ok(Self { tag, bytes: Bytes::copy_from_slice(&packed.unwrap_or(json)), unpacked })
    }

    /// The response for a client that may already have the answer. The data may change, so clients must ask each
    /// time.
    pub(crate) fn reply(self, asked: &HeaderMap) -> ApiResult<Response> {
        let is_current = is_current(asked, &self.tag);
        let caching =
            [(header::ETAG, self.tag), (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))];
        if is_current {
            return Ok((StatusCode::NOT_MODIFIED, caching).into_response());
        }
        let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        let Some(length) = self.unpacked else { return Ok((caching, json, self.bytes).into_response()) };
        let varies = [(header::VARY, HeaderValue::from_static("accept-encoding"))];
        if accepts(asked, "zstd") {
            let packed = [(header::CONTENT_ENCODING, HeaderValue::from_static("zstd"))];
            return Ok((caching, json, varies, packed, self.bytes).into_response());
        }
        let unpacked = zstd::bulk::decompress(&self.bytes, length).map_err(ApiFault::internal)?;
        Ok((caching, json, varies, unpacked).into_response())
    }
}

#[derive(Clone, Copy)]
struct Bytewise;

impl Weighter<PageKey, Page> for Bytewise {
    fn weight(&self, question: &PageKey, answer: &Page) -> u64 {
        (answer.bytes.len() + question.asked.len()) as u64
    }
}

#[derive(Clone)]
pub(crate) struct PageCache(Arc<Cache<PageKey, Page, Bytewise>>);

impl Default for PageCache {
    fn default() -> Self {
        Self(Arc::new(Cache::with_weighter(USUALLY_KEPT, MAX_KEPT, Bytewise)))
    }
}

impl PageCache {
    /// The answer to a question. It is kept, is being made for another client, or is made now.
    pub(crate) async fn answer<T: serde::Serialize>(
        &self,
        question: &PageKey,
        make: impl Future<Output = ApiResult<T>>,
    ) -> ApiResult<Page> {
        self.page(question, async { Page::of(&make.await?) }).await
    }

    /// Like [`Self::answer`], for an answer that is made elsewhere.
    pub(crate) async fn page(
        &self,
        question: &PageKey,
        make: impl Future<Output = ApiResult<Page>>,
    ) -> ApiResult<Page> {
        self.0.get_or_insert_async(question, make).await
    }
}

/// How many results are kept at most.
const MAX_RESULTS: usize = 4096;

/// Results of this process by key, each with the revision of the entries that it was computed from.
pub(crate) struct Remembered<K, V>(Mutex<HashMap<K, (i64, V)>>);

impl<K, V> Default for Remembered<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone> Remembered<K, V> {
    pub(crate) fn get(&self, key: &K, revision: i64) -> Option<V> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(key).filter(|(of, _)| *of == revision).map(|(_, value)| value.clone())
    }

    pub(crate) fn put(&self, key: K, revision: i64, value: V) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_RESULTS && !kept.contains_key(&key) {
            kept.clear();
        }
        kept.insert(key, (revision, value));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn an_answer_is_made_once_for_each_revision() {
        let (pages, made) = (PageCache::default(), Cell::new(0));
        let slug: HardwareSlug = "nvidia-h200".parse().unwrap();
        let ask = async |revision: i64, value: u32| {
            let make = async {
                made.set(made.get() + 1);
                Ok(value)
            };
            let question = PageKey::new(slug.clone(), &revision);
            pages.answer(&question, make).await.unwrap()
        };
        let (first, again, next) = (ask(1, 7).await, ask(1, 8).await, ask(2, 8).await);
        assert_eq!(
            (first.bytes.as_ref(), again.bytes.as_ref(), next.bytes.as_ref()),
            (&b"7"[..], &b"7"[..], &b"8"[..])
        );
        assert_eq!((first.tag.clone(), made.get()), (again.tag, 2));
        // The tag depends on the content alone: it stays the same when entries change that the answer does not show.
        assert_eq!(ask(3, 7).await.tag, first.tag);
        assert_ne!(first.tag, next.tag);
    }
    #[tokio::test]
    async fn long_answers_are_kept_packed_and_sent_as_the_client_wishes() {
        let json = serde_json::to_vec(&vec!["the same again"; LONG / 8]).unwrap();
        let page = Page::of_json(json.clone()).unwrap();
        assert!(page.bytes.len() * 10 < json.len());
        let sent = async |encodings: &'static str| {
            let mut asked = HeaderMap::new();
            asked.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(encodings));
            let reply = page.clone().reply(&asked).unwrap();
            assert_eq!(reply.headers()[header::VARY], "accept-encoding");
            let is_packed = reply.headers().contains_key(header::CONTENT_ENCODING);
            let body = axum::body::to_bytes(reply.into_body(), usize::MAX).await.unwrap();
            (is_packed, body)
        };
        for encodings in ["gzip, br", "zstd;q=0", ""] {
            assert_eq!(sent(encodings).await, (false, json.clone().into()), "{encodings}");
        }
        for encodings in ["zstd", "gzip, br, ZSTD;q=0.5"] {
            let (is_packed, body) = sent(encodings).await;
            assert!(is_packed, "{encodings}");
            assert_eq!(zstd::bulk::decompress(&body, json.len()).unwrap(), json);
        }
    }

    #[test]
    fn an_answer_holds_for_its_revision_only() {
        let memory = Remembered::default();
        memory.put("count", 1, 7);
        assert_eq!(memory.get(&"count", 1), Some(7));
        assert_eq!(memory.get(&"count", 2), None);
        assert_eq!(memory.get(&"other", 1), None);
    }
}
