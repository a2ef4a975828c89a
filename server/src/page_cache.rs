//! Answers in the form in which they are sent. Each is kept as long as the data that it was made of does not change.
//! So the same answer for the next client, and the answer "unchanged", need only one small query.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use diode_core::ids::{Digest, HardwareSlug};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::http::{ApiFault, ApiResult, is_current, weak_etag};

/// The most bytes of all kept answers together: some hundreds of pages.
const MAX_KEPT: u64 = 32 << 20;

/// About how many answers are kept.
const USUALLY_KEPT: usize = 1024;

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
    json: Bytes,
}

impl Page {
    fn of(value: &impl serde::Serialize) -> ApiResult<Self> {
        let json = serde_json::to_vec(value).map_err(ApiFault::internal)?;
        Ok(Self { tag: weak_etag(&Digest::of(&json)), json: json.into() })
    }

    /// The response for a client that may already have the answer. The data may change, so clients must ask each
    /// time.
    pub(crate) fn reply(self, asked: &HeaderMap) -> Response {
        let is_current = is_current(asked, &self.tag);
        let caching =
            [(header::ETAG, self.tag), (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))];
        if is_current {
            return (StatusCode::NOT_MODIFIED, caching).into_response();
        }
        let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        (caching, json, self.json).into_response()
    }
}

#[derive(Clone, Copy)]
struct Bytewise;

impl Weighter<PageKey, Page> for Bytewise {
    fn weight(&self, question: &PageKey, answer: &Page) -> u64 {
        (answer.json.len() + question.asked.len()) as u64
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
        self.0.get_or_insert_async(question, async { Page::of(&make.await?) }).await
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
            (first.json.as_ref(), again.json.as_ref(), next.json.as_ref()),
            (&b"7"[..], &b"7"[..], &b"8"[..])
        );
        assert_eq!((first.tag.clone(), made.get()), (again.tag, 2));
        // The tag depends on the content alone: it stays the same when entries change that the answer does not show.
        assert_eq!(ask(3, 7).await.tag, first.tag);
        assert_ne!(first.tag, next.tag);
    }
}
