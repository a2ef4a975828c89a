//! Whole files, byte for byte: uploads, models, kernel packs and snapshots. Each is named by the digest of its
//! bytes, so a blob is never overwritten with other bytes.

mod bucket;
mod parts;
mod place;

use std::error::Error;
use std::future::ready;
use std::io;
use std::iter::successors;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use axum::body::Bytes;
use diode_core::ids::Digest;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use object_store::path::Path as BlobPath;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutPayload};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncSeekExt as _, AsyncWriteExt as _};

use crate::blobs::parts::{PART_BYTES, Source, unread};
use crate::blobs::place::Home;

pub use crate::blobs::place::{BlobKey, BlobKind, BlobPlace, Bucket, Keys};

/// The size of the probe. It is too large for a file system to keep it beside the file's name, so a full disk
/// makes the probe fail.
const PROBE_BYTES: usize = 1 << 16;

#[derive(Clone)]
pub struct Blobs {
    store: Arc<dyn ObjectStore>,
    home: Home,
}

impl Blobs {
    /// Uses the place that the settings name.
    pub async fn open(place: &BlobPlace) -> Result<Self, BlobError> {
        match place {
            BlobPlace::Folder(folder) => Self::in_folder(folder),
            BlobPlace::Bucket(bucket) => Self::in_bucket(bucket).await,
        }
    }

    /// Uses a folder, and creates it if it does not exist.
    pub fn in_folder(folder: &Path) -> Result<Self, BlobError> {
        let (home, store) = Home::folder(folder)?;
        Ok(Self { store, home })
    }

    /// Uses a bucket, if it exists and answers.
    async fn in_bucket(bucket: &Bucket) -> Result<Self, BlobError> {
        let refuse = |cause| BlobError::Home { home: bucket.to_string(), cause };
        let store = bucket::open(bucket).await.map_err(refuse)?;
        Ok(Self { store, home: Home::Bucket(bucket.to_string()) })
    }

    /// Stores a blob. Once this returns, the blob survives a power cut. In a folder, the file and every folder
    /// above it have been synced. In a bucket, the storage has acknowledged it.
    pub async fn put(&self, kind: BlobKind, digest: &Digest, bytes: Bytes) -> Result<(), BlobError> {
        if bytes.len() > PART_BYTES {
            return self.put_parts(kind, digest, Source::Memory(bytes)).await;
        }
        self.check_home()?;
        let stored = self.store.put(&kind.path(digest), PutPayload::from_bytes(bytes)).await;
        stored.map(drop).map_err(failed_to("stored", digest))
    }

    /// Stores the bytes of a file, which may be too large for memory. It is as durable as [`put`](Self::put).
    pub async fn put_file(
        &self,
        kind: BlobKind,
        digest: &Digest,
        mut file: tokio::fs::File,
    ) -> Result<(), BlobError> {
        file.rewind().await.map_err(unread).map_err(failed_to("stored", digest))?;
        self.put_parts(kind, digest, Source::File(file)).await
    }

    async fn put_parts(&self, kind: BlobKind, digest: &Digest, source: Source) -> Result<(), BlobError> {
        let failed = failed_to("stored", digest);
        self.check_home()?;
        let upload = self.store.put_multipart(&kind.path(digest)).await.map_err(&failed)?;
        parts::send(upload, source).await.map_err(failed)
    }

    /// Reads a blob piece by piece.
    pub async fn stream(
        &self,
        kind: BlobKind,
        digest: &Digest,
    ) -> Result<impl Stream<Item = Result<Bytes, object_store::Error>> + Send + 'static, BlobError> {
        let failed = failed_to("read", digest);
        Ok(self.store.get(&kind.path(digest)).await.map_err(failed)?.into_stream())
    }

    /// Reads a range of a blob piece by piece. The blob must have the whole range.
    pub async fn stream_part(
        &self,
        kind: BlobKind,
        digest: &Digest,
        part: Range<u64>,
    ) -> Result<impl Stream<Item = Result<Bytes, object_store::Error>> + Send + 'static, BlobError> {
        let options = GetOptions { range: Some(GetRange::Bounded(part)), ..GetOptions::default() };
        let found = self.store.get_opts(&kind.path(digest), options).await;
        Ok(found.map_err(failed_to("read", digest))?.into_stream())
    }

    /// Copies a blob of any size to another place. If the blob's bytes do not match its name, stores nothing
    /// and returns `false`.
    pub async fn copy_to(&self, to: &Self, kind: BlobKind, digest: &Digest) -> Result<bool, BlobError> {
        let unwritten = |error: io::Error| to.unusable(error.into());
        let (mut file, mut hash) = (to.scratch().await?, Sha256::new());
        self.each_piece(kind, digest, async |piece| {
            hash.update(&piece);
            file.write_all(&piece).await.map_err(unwritten)
        })
        .await?;
        if Digest::from_hash(hash.finalize().into()) != *digest {
            return Ok(false);
        }
        file.flush().await.map_err(unwritten)?;
        to.put_file(kind, digest, file).await?;
        Ok(true)
    }

    /// Whether a blob's bytes match its name.
    pub async fn is_whole(&self, kind: BlobKind, digest: &Digest) -> Result<bool, BlobError> {
        let mut hash = Sha256::new();
        self.each_piece(kind, digest, async |piece| {
            hash.update(&piece);
            Ok(())
        })
        .await?;
        Ok(Digest::from_hash(hash.finalize().into()) == *digest)
    }

    async fn each_piece(
        &self,
        kind: BlobKind,
        digest: &Digest,
        mut take: impl AsyncFnMut(Bytes) -> Result<(), BlobError>,
    ) -> Result<(), BlobError> {
        let mut pieces = self.stream(kind, digest).await?;
        let failed = failed_to("read", digest);
        while let Some(piece) = pieces.try_next().await.map_err(&failed)? {
            take(piece).await?;
        }
        Ok(())
    }

    fn check_home(&self) -> Result<(), BlobError> {
        self.home.check().map_err(|error| self.unusable(error.into()))
    }

    fn unusable(&self, cause: Box<dyn Error + Send + Sync>) -> BlobError {
        BlobError::Home { home: self.home.to_string(), cause }
    }

    /// The size of a blob; `None` if it does not exist.
    pub async fn size(&self, kind: BlobKind, digest: &Digest) -> Result<Option<u64>, BlobError> {
        match self.store.head(&kind.path(digest)).await {
            Ok(found) => Ok(Some(found.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failed_to("looked for", digest)(error)),
        }
    }

    /// Every blob, with the time of its last change. Files whose name is not a digest are left out.
    pub fn list(
        &self,
    ) -> impl Stream<Item = Result<(BlobKind, Digest, jiff::Timestamp), BlobError>> + Send + '_ {
        let blob = |kind: BlobKind, found: ObjectMeta| {
            let name = found.location.filename()?.strip_suffix(kind.extension())?;
            let changed = jiff::Timestamp::from_millisecond(found.last_modified.timestamp_millis()).ok()?;
            Some((kind, name.parse().ok()?, changed))
        };
        stream::iter(BlobKind::ALL).flat_map(move |kind| {
            let found = self.store.list(Some(&BlobPath::from(kind.folder())));
            found
                .map_err(|source| self.unusable(source.into()))
                .try_filter_map(move |found| ready(Ok(blob(kind, found))))
        })
    }

    /// Removes a blob.
    pub async fn remove(&self, kind: BlobKind, digest: &Digest) -> Result<(), BlobError> {
        let removed = self.store.delete(&kind.path(digest)).await;
        removed.map_err(failed_to("removed", digest))
    }

    /// Fails if no blob can be stored.
    pub async fn probe(&self) -> Result<(), BlobError> {
        self.check_home()?;
        let path = BlobPath::from("probe");
        let bytes = vec![b'.'; PROBE_BYTES];
        let failed = |source: object_store::Error| self.unusable(source.into());
        self.store.put(&path, PutPayload::from(bytes)).await.map_err(failed)?;
        match self.store.delete(&path).await {
            // Another server that probes at the same time has removed the file.
            Err(object_store::Error::NotFound { .. }) => Ok(()),
            other => other.map_err(failed),
        }
    }

    /// A file for an upload while it arrives. It has no name, so it disappears when the process ends.
    pub async fn scratch(&self) -> Result<tokio::fs::File, BlobError> {
        self.check_home()?;
        let home = self.home.clone();
        let made = tokio::task::spawn_blocking(move || home.scratch()).await;
        let made = made.unwrap_or_else(|error| Err(io::Error::other(error)));
        made.map(tokio::fs::File::from_std).map_err(|error| self.unusable(error.into()))
    }

    /// Reads a whole blob.
    pub async fn get(&self, kind: BlobKind, digest: &Digest) -> Result<Bytes, BlobError> {
        let failed = failed_to("read", digest);
        let found = self.store.get(&kind.path(digest)).await.map_err(&failed)?;
        found.bytes().await.map_err(failed)
    }
}

fn failed_to(action: &'static str, digest: &Digest) -> impl Fn(object_store::Error) -> BlobError {
    move |cause| BlobError::Access { digest: digest.clone(), action, cause }
}

/// Codes and messages by which S3-compatible storage says that it is full.
const FULL: [&str; 4] = ["QuotaExceeded", "StorageFull", "quota is reached", "507 Insufficient Storage"];

/// The message includes the cause, so there is no `source`: the cause would be printed twice.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// The place for blobs cannot be used.
    #[error("the blobs in {home} cannot be used: {cause}")]
    Home { home: String, cause: Box<dyn Error + Send + Sync> },

    #[error("blob {digest} could not be {action}: {cause}")]
    Access { digest: Digest, action: &'static str, cause: object_store::Error },
}

/// What a failure means for whoever needed the blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    Full,
    /// Trying again later may help.
    Unavailable,
    /// The storage works, but it does not have the blob.
    Missing,
}

impl BlobError {
    pub(crate) fn trouble(&self) -> Trouble {
        let cause: &(dyn Error + 'static) = match self {
            Self::Home { cause, .. } => cause.as_ref(),
            Self::Access { cause, .. } => cause,
        };
        let causes = successors(Some(cause), |&cause| cause.source());
        let mut io = causes.filter_map(|cause| cause.downcast_ref::<io::Error>());
        let text = self.to_string();
        if io.any(is_full) || FULL.iter().any(|words| text.contains(words)) {
            return Trouble::Full;
        }
        match self {
            Self::Access { cause: object_store::Error::NotFound { .. }, .. }
                if !text.contains("NoSuchBucket") =>
            {
                Trouble::Missing
            }
            _ => Trouble::Unavailable,
        }
    }
}

/// Whether a disk, a quota or a file's size limit is used up.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn blobs_come_back_and_absent_ones_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::in_folder(&folder.path().join("new")).unwrap();
        let bytes = Bytes::from_static(b"a model");
        let digest = Digest::of(&bytes);
        for _ in 0..2 {
            blobs.put(BlobKind::Model, &digest, bytes.clone()).await.unwrap();
        }
        assert_eq!(blobs.get(BlobKind::Model, &digest).await.unwrap(), bytes);
        let error = blobs.get(BlobKind::Upload, &digest).await.unwrap_err();
        assert!(error.to_string().contains(digest.as_str()), "{error}");
    }

    #[tokio::test]
    async fn large_blobs_come_in_parts() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::in_folder(folder.path()).unwrap();
        let bytes = Bytes::from((0..PART_BYTES * 2 + 7).map(|i| (i % 251) as u8).collect::<Vec<_>>());
        let mut file = blobs.scratch().await.unwrap();
        file.write_all(&bytes).await.unwrap();
        let digest = Digest::of(&bytes);
        blobs.put_file(BlobKind::Pack, &digest, file).await.unwrap();
        let parts = blobs.stream(BlobKind::Pack, &digest).await.unwrap();
        let parts: Vec<Bytes> = parts.try_collect().await.unwrap();
        assert_eq!(parts.concat(), bytes);
        let middle = PART_BYTES as u64 - 3..PART_BYTES as u64 + 3;
        let parts = blobs.stream_part(BlobKind::Pack, &digest, middle).await.unwrap();
        let parts: Vec<Bytes> = parts.try_collect().await.unwrap();
        assert_eq!(parts.concat(), bytes[PART_BYTES - 3..PART_BYTES + 3]);

        let copies = Blobs::in_folder(&folder.path().join("copies")).unwrap();
        assert!(blobs.copy_to(&copies, BlobKind::Pack, &digest).await.unwrap());
        assert_eq!(copies.get(BlobKind::Pack, &digest).await.unwrap(), bytes);
        assert!(copies.is_whole(BlobKind::Pack, &digest).await.unwrap());
        let other = Digest::of(b"other bytes");
        copies.put(BlobKind::Pack, &other, bytes).await.unwrap();
        assert!(!copies.is_whole(BlobKind::Pack, &other).await.unwrap());
        assert!(!copies.copy_to(&blobs, BlobKind::Pack, &other).await.unwrap());
        assert_eq!(blobs.size(BlobKind::Pack, &other).await.unwrap(), None);
    }
}

#[cfg(test)]
mod error_tests {
    use super::*;

    fn stored(cause: object_store::Error) -> Trouble {
        BlobError::Access { digest: Digest::of(b"x"), action: "stored", cause }.trouble()
    }

    fn generic(source: impl Into<Box<dyn Error + Send + Sync>>) -> object_store::Error {
        object_store::Error::Generic { store: "S3", source: source.into() }
    }

    #[test]
    fn what_is_full_what_is_away_and_what_is_missing_differ() {
        let disk = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(stored(generic(disk)), Trouble::Full);
        for words in ["403 Forbidden: <Code>QuotaExceeded</Code>", "507 Insufficient Storage: "] {
            assert_eq!(stored(generic(words)), Trouble::Full);
        }
        assert_eq!(stored(generic("connection refused")), Trouble::Unavailable);
        let absent = |source: &str| object_store::Error::NotFound { path: "x".into(), source: source.into() };
        assert_eq!(stored(absent("<Code>NoSuchKey</Code>")), Trouble::Missing);
        assert_eq!(stored(absent("<Code>NoSuchBucket</Code>")), Trouble::Unavailable);
    }
}
