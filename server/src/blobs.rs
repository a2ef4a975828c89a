//! Whole files: uploads, byte for byte, and models. Each is named by the digest
//! of its bytes, so none is ever overwritten with something else.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::Bytes;
use diode_core::ids::Digest;
use object_store::local::LocalFileSystem;
use object_store::path::Path as BlobPath;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};

/// The folder that a blob lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobKind {
    Upload,
    Model,
}

#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    #[error("the blob folder `{}` cannot be used: {source}", folder.display())]
    Folder { folder: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },

    #[error("blob {digest} could not be {action}: {source}")]
    Access { digest: Digest, action: &'static str, source: object_store::Error },
}

#[derive(Clone)]
pub struct Blobs(Arc<dyn ObjectStore>);

impl Blobs {
    /// Uses a folder, which is created if it is not there.
    pub fn open(folder: &Path) -> Result<Self, BlobError> {
        let refuse = |source| BlobError::Folder { folder: folder.to_owned(), source };
        std::fs::create_dir_all(folder).map_err(|error| refuse(error.into()))?;
        let store = LocalFileSystem::new_with_prefix(folder).map_err(|error| refuse(error.into()))?;
        Ok(Self(Arc::new(store.with_fsync(true))))
    }

    /// Stores a blob. Once this returns, it survives a power cut: the file and
    /// every folder that names it have been synced.
    pub async fn put(&self, kind: BlobKind, digest: &Digest, bytes: Bytes) -> Result<(), BlobError> {
        let stored = self.0.put(&path(kind, digest), PutPayload::from_bytes(bytes)).await;
        stored.map(drop).map_err(|source| BlobError::Access {
            digest: digest.clone(),
            action: "stored",
            source,
        })
    }

    /// Reads a whole blob.
    pub async fn get(&self, kind: BlobKind, digest: &Digest) -> Result<Bytes, BlobError> {
        let failed = |source| BlobError::Access { digest: digest.clone(), action: "read", source };
        let found = self.0.get(&path(kind, digest)).await.map_err(failed)?;
        found.bytes().await.map_err(failed)
    }
}

fn path(kind: BlobKind, digest: &Digest) -> BlobPath {
    let (folder, extension) = match kind {
        BlobKind::Upload => ("uploads", ""),
        BlobKind::Model => ("models", ".safetensors"),
    };
    BlobPath::from(format!("{folder}/{digest}{extension}"))
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
}
