//! Whole files: uploads, byte for byte, models and kernel packs. Each is named by the digest
//! of its bytes, so none is ever overwritten with something else.

use std::future::ready;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::Bytes;
use diode_core::ids::Digest;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use object_store::local::LocalFileSystem;
use object_store::path::Path as BlobPath;
use object_store::{MultipartUpload as _, ObjectMeta, ObjectStore, ObjectStoreExt, PutPayload};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};

/// The folder that a blob lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BlobKind {
    Upload,
    Model,
    Pack,
}

#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    #[error("the blob folder `{}` cannot be used: {source}", folder.display())]
    Folder { folder: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },

    #[error("blob {digest} could not be {action}: {source}")]
    Access { digest: Digest, action: &'static str, source: object_store::Error },
}

/// More than a file system stores beside a file's name, so that a full disk is noticed.
const PROBE_BYTES: usize = 1 << 16;

/// Of a large blob, so much is in memory at a time.
const PART_BYTES: usize = 1 << 20;

#[derive(Clone)]
pub struct Blobs {
    store: Arc<dyn ObjectStore>,
    folder: PathBuf,
}

impl Blobs {
    /// Uses a folder, which is created if it is not there.
    pub fn open(folder: &Path) -> Result<Self, BlobError> {
        let refuse = |source| BlobError::Folder { folder: folder.to_owned(), source };
        std::fs::create_dir_all(folder).map_err(|error| refuse(error.into()))?;
        let store = LocalFileSystem::new_with_prefix(folder).map_err(|error| refuse(error.into()))?;
        Ok(Self { store: Arc::new(store.with_fsync(true)), folder: folder.to_owned() })
    }

    /// Stores a blob. Once this returns, it survives a power cut: the file and
    /// every folder that names it have been synced.
    pub async fn put(&self, kind: BlobKind, digest: &Digest, bytes: Bytes) -> Result<(), BlobError> {
        let stored = self.store.put(&path(kind, digest), PutPayload::from_bytes(bytes)).await;
        stored.map(drop).map_err(|source| BlobError::Access {
            digest: digest.clone(),
            action: "stored",
            source,
        })
    }

    /// Stores a blob that is too large for memory, from the beginning of a file. It is as durable.
    pub async fn put_file(
        &self,
        kind: BlobKind,
        digest: &Digest,
        mut file: tokio::fs::File,
    ) -> Result<(), BlobError> {
        let failed = |source| BlobError::Access { digest: digest.clone(), action: "stored", source };
        let unread = |error: std::io::Error| {
            failed(object_store::Error::Generic { store: "scratch", source: error.into() })
        };
        file.rewind().await.map_err(unread)?;
        let mut upload = self.store.put_multipart(&path(kind, digest)).await.map_err(failed)?;
        loop {
            let mut part = Vec::with_capacity(PART_BYTES);
            (&mut file).take(PART_BYTES as u64).read_to_end(&mut part).await.map_err(unread)?;
            if part.is_empty() {
                break;
            }
            upload.put_part(PutPayload::from(part)).await.map_err(failed)?;
        }
        upload.complete().await.map(drop).map_err(failed)
    }

    /// Reads a blob piece by piece.
    pub async fn stream(
        &self,
        kind: BlobKind,
        digest: &Digest,
    ) -> Result<impl Stream<Item = Result<Bytes, object_store::Error>> + Send + 'static, BlobError> {
        let failed = |source| BlobError::Access { digest: digest.clone(), action: "read", source };
        Ok(self.store.get(&path(kind, digest)).await.map_err(failed)?.into_stream())
    }

    /// The size of a blob; `None` if it is not there.
    pub async fn size(&self, kind: BlobKind, digest: &Digest) -> Result<Option<u64>, BlobError> {
        match self.store.head(&path(kind, digest)).await {
            Ok(found) => Ok(Some(found.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(source) => Err(BlobError::Access { digest: digest.clone(), action: "looked for", source }),
        }
    }

    /// Every blob there is, with the time of its last change. Files of other names are left out.
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
                .map_err(|source| BlobError::Folder { folder: self.folder.clone(), source: source.into() })
                .try_filter_map(move |found| ready(Ok(blob(kind, found))))
        })
    }

    /// Removes a blob.
    pub async fn remove(&self, kind: BlobKind, digest: &Digest) -> Result<(), BlobError> {
        let removed = self.store.delete(&path(kind, digest)).await;
        removed.map_err(|source| BlobError::Access { digest: digest.clone(), action: "removed", source })
    }

    /// Fails if no blob can be stored.
    pub async fn probe(&self) -> Result<(), BlobError> {
        let path = BlobPath::from("probe");
        let bytes = vec![b'.'; PROBE_BYTES];
        let failed = |source: object_store::Error| BlobError::Folder {
            folder: self.folder.clone(),
            source: source.into(),
        };
        self.store.put(&path, PutPayload::from(bytes)).await.map_err(failed)?;
        self.store.delete(&path).await.map_err(failed)
    }

    /// A file for an upload while it arrives. It has no name, so it is gone with the process.
    pub async fn scratch(&self) -> Result<tokio::fs::File, BlobError> {
        let folder = self.folder.clone();
        let made = tokio::task::spawn_blocking(move || tempfile::tempfile_in(folder)).await;
        let made = made.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        made.map(tokio::fs::File::from_std)
            .map_err(|error| BlobError::Folder { folder: self.folder.clone(), source: error.into() })
    }

    /// Reads a whole blob.
    pub async fn get(&self, kind: BlobKind, digest: &Digest) -> Result<Bytes, BlobError> {
        let failed = |source| BlobError::Access { digest: digest.clone(), action: "read", source };
        let found = self.store.get(&path(kind, digest)).await.map_err(failed)?;
        found.bytes().await.map_err(failed)
    }
}

impl BlobKind {
    const ALL: [Self; 3] = [Self::Upload, Self::Model, Self::Pack];

    const fn folder(self) -> &'static str {
        match self {
            Self::Upload => "uploads",
            Self::Model => "models",
            Self::Pack => "packs",
        }
    }

    const fn extension(self) -> &'static str {
        match self {
            Self::Upload => "",
            Self::Model => ".safetensors",
            Self::Pack => ".pack",
        }
    }
}

fn path(kind: BlobKind, digest: &Digest) -> BlobPath {
    BlobPath::from(format!("{}/{digest}{}", kind.folder(), kind.extension()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn blobs_come_back_and_absent_ones_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(&folder.path().join("new")).unwrap();
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
        let blobs = Blobs::open(folder.path()).unwrap();
        let bytes = Bytes::from((0..PART_BYTES * 2 + 7).map(|i| (i % 251) as u8).collect::<Vec<_>>());
        let mut file = blobs.scratch().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut file, &bytes).await.unwrap();
        let digest = Digest::of(&bytes);
        blobs.put_file(BlobKind::Pack, &digest, file).await.unwrap();
        let parts = blobs.stream(BlobKind::Pack, &digest).await.unwrap();
        let parts: Vec<Bytes> = parts.try_collect().await.unwrap();
        assert_eq!(parts.concat(), bytes);
    }
}
