//! A cache of the datasets and tables that clients download. `export_routes` makes the files, one at a time.
//! They are kept under the digest of their input, so the answer "unchanged" needs no file.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use diode_core::ids::Digest;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::http::{ApiFault, ApiResult};

/// The most bytes of all kept files together.
const MAX_KEPT: u64 = 128 << 20;

/// About how many files are kept.
const USUALLY_KEPT: usize = 256;

/// How many lengths of files are kept.
const LENGTHS: usize = 4096;

/// How long a client waits for its turn.
const WAIT: Duration = Duration::from_secs(60);

/// A file for the client to save.
#[derive(Debug, Clone)]
pub(crate) struct ExportFile {
    pub(crate) bytes: Bytes,
    /// Rows that are damaged and therefore left out.
    pub(crate) left_out: usize,
}

impl ExportFile {
    /// Gives back the room that the vector has beyond its bytes, which nobody would count.
    pub(crate) fn new(bytes: Vec<u8>, left_out: usize) -> Self {
        Self { bytes: bytes.into_boxed_slice().into(), left_out }
    }
}

#[derive(Clone, Copy)]
struct Bytewise;

impl Weighter<Digest, ExportFile> for Bytewise {
    fn weight(&self, _: &Digest, file: &ExportFile) -> u64 {
        file.bytes.len().max(1) as u64
    }
}

#[derive(Clone)]
pub(crate) struct Exports {
    kept: Arc<Cache<Digest, ExportFile, Bytewise>>,
    /// The lengths of files, also of those that are no longer kept.
    lengths: Arc<Cache<Digest, u64>>,
    making: Arc<Semaphore>,
}

impl Default for Exports {
    fn default() -> Self {
        // One shard: several shards would divide the room, and none could keep a large file.
        let options = OptionsBuilder::new()
            .shards(1)
            .estimated_items_capacity(USUALLY_KEPT)
            .weight_capacity(MAX_KEPT)
            .build()
            .expect("both capacities are given");
        let kept = Cache::with_options(
            options,
            Bytewise,
            DefaultHashBuilder::default(),
            DefaultLifecycle::default(),
        );
        let lengths = Arc::new(Cache::new(LENGTHS));
        Self { kept: Arc::new(kept), lengths, making: Arc::new(Semaphore::new(1)) }
    }
}

impl Exports {
    /// The file of a digest. It is kept, is being made for another request, or is made now.
    pub(crate) async fn file(
        &self,
        digest: &Digest,
        make: impl Future<Output = ApiResult<ExportFile>>,
    ) -> ApiResult<ExportFile> {
        let one_at_a_time = async {
            let turn = timeout(WAIT, self.making.acquire()).await;
            let Ok(Ok(_turn)) = turn else {
                return Err(ApiFault::busy("others wait for files that take long to make; try again later"));
            };
            make.await
        };
        let file = self.kept.get_or_insert_async(digest, one_at_a_time).await?;
        self.lengths.insert(digest.clone(), file.bytes.len() as u64);
        Ok(file)
    }

    /// The length of a file that was made since the program started.
    pub(crate) fn length(&self, digest: &Digest) -> Option<u64> {
        self.lengths.get(digest)
    }

    pub(crate) fn is_kept(&self, digest: &Digest) -> bool {
        self.kept.contains_key(digest)
    }

    /// Drops a kept file, so that the next request makes it anew.
    pub(crate) fn forget(&self, digest: &Digest) {
        self.kept.remove(digest);
        self.lengths.remove(digest);
    }
}

#[cfg(test)]
mod exports_tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_file_is_made_once_for_all_who_ask() {
        let (exports, made, at_once) = (Exports::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let ask = async |name: &str| {
            let make = async {
                assert_eq!(at_once.fetch_add(1, Ordering::Relaxed), 0);
                tokio::time::sleep(Duration::from_millis(20)).await;
                at_once.fetch_sub(1, Ordering::Relaxed);
                made.fetch_add(1, Ordering::Relaxed);
                Ok(ExportFile { bytes: Bytes::from(name.to_owned()), left_out: 0 })
            };
            exports.file(&Digest::of(name.as_bytes()), make).await.unwrap().bytes
        };
        let (a, b, c) = tokio::join!(ask("a"), ask("a"), ask("b"));
        assert_eq!((a.as_ref(), b.as_ref(), c.as_ref()), (&b"a"[..], &b"a"[..], &b"b"[..]));
        assert_eq!(ask("a").await, "a");
        assert_eq!(made.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_failure_is_not_kept() {
        let exports = Exports::default();
        let digest = Digest::of(b"a");
        assert!(exports.file(&digest, async { Err(ApiFault::invalid("no")) }).await.is_err());
        let file = ExportFile { bytes: Bytes::from_static(b"a"), left_out: 0 };
        assert!(exports.file(&digest, async { Ok(file) }).await.is_ok());
    }
}
