//! Pages of boards as they were sent, kept as long as their entries do not change. So the same page for the next client,
//! and the answer "unchanged", cost one small query.

use std::future::Future;
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::HeaderValue;
use diode_core::api::LeaderboardQuery;
use diode_core::ids::{Digest, HardwareSlug};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::http::{ApiFault, ApiResult, weak_etag};

/// Bytes of all answers that are kept: some hundreds of pages.
const MAX_KEPT: u64 = 32 << 20;

/// What is asked, and what keeping it takes: at most so many bytes beside the answer.
const QUESTION: usize = 1 << 10;

/// PageCache that are kept, roughly.
const USUALLY_KEPT: usize = 1024;

/// What an answer is made of: entries of a hardware at a revision, and what was asked for.
pub(crate) type Question = (HardwareSlug, i64, LeaderboardQuery);

/// JSON, and the tag that is the same for the same JSON, whichever server has made it.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) tag: HeaderValue,
    pub(crate) json: Bytes,
}

impl Answer {
    fn of(value: &impl serde::Serialize) -> ApiResult<Self> {
        let json = serde_json::to_vec(value).map_err(ApiFault::internal)?;
        Ok(Self { tag: weak_etag(&Digest::of(&json)), json: json.into() })
    }
}

#[derive(Clone, Copy)]
struct Bytewise;

impl Weighter<Question, Answer> for Bytewise {
    fn weight(&self, _: &Question, answer: &Answer) -> u64 {
        (answer.json.len() + QUESTION) as u64
    }
}

#[derive(Clone)]
pub(crate) struct PageCache(Arc<Cache<Question, Answer, Bytewise>>);

impl Default for PageCache {
    fn default() -> Self {
        Self(Arc::new(Cache::with_weighter(USUALLY_KEPT, MAX_KEPT, Bytewise)))
    }
}

impl PageCache {
    /// The answer to a question: a kept one, one that is being made for another client, or a new one.
    pub(crate) async fn answer<T: serde::Serialize>(
        &self,
        question: &Question,
        make: impl Future<Output = ApiResult<T>>,
    ) -> ApiResult<Answer> {
        self.0.get_or_insert_async(question, async { Answer::of(&make.await?) }).await
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
            let question = (slug.clone(), revision, LeaderboardQuery::default());
            pages.answer(&question, make).await.unwrap()
        };
        let (first, again, next) = (ask(1, 7).await, ask(1, 8).await, ask(2, 8).await);
        assert_eq!(
            (first.json.as_ref(), again.json.as_ref(), next.json.as_ref()),
            (&b"7"[..], &b"7"[..], &b"8"[..])
        );
        assert_eq!((first.tag.clone(), made.get()), (again.tag, 2));
        // The same content has the same tag, also after entries that it does not show have changed.
        assert_eq!(ask(3, 7).await.tag, first.tag);
        assert_ne!(first.tag, next.tag);
    }
}
