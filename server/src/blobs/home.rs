//! The place where blobs are kept, for checks that the library does not make.

use std::env::temp_dir;
use std::fmt::{self, Display};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;

use super::BlobError;
use crate::path_identity::PathIdentity;

#[derive(Debug, Clone)]
pub(super) enum Home {
    Folder(PathIdentity),
    /// A bucket, in words.
    Bucket(String),
}

impl Home {
    /// Uses a folder, and creates it if it does not exist.
    pub(super) fn folder(folder: &Path) -> Result<(Self, Arc<dyn ObjectStore>), BlobError> {
        let refuse = |cause| BlobError::Home { home: folder.display().to_string(), cause };
        std::fs::create_dir_all(folder).map_err(|error| refuse(error.into()))?;
        let store = LocalFileSystem::new_with_prefix(folder).map_err(|error| refuse(error.into()))?;
        let place = PathIdentity::of(folder).map_err(|error| refuse(error.into()))?;
        Ok((Self::Folder(place), Arc::new(store.with_fsync(true))))
    }

    /// Fails if the folder was moved away, because storing would create it anew. Storing never creates a
    /// bucket.
    pub(super) fn check(&self) -> io::Result<()> {
        match self {
            Self::Folder(place) => place.check(),
            Self::Bucket(_) => Ok(()),
        }
    }

    /// A file without a name, which disappears when the process ends. It lies in the folder of the blobs or,
    /// with a bucket, in the system's temporary folder.
    pub(super) fn scratch(&self) -> io::Result<File> {
        match self {
            Self::Folder(place) => tempfile::tempfile_in(place.path()),
            Self::Bucket(_) => tempfile::tempfile().map_err(|error| {
                let folder = temp_dir();
                io::Error::new(error.kind(), format!("no file in {} (TMPDIR): {error}", folder.display()))
            }),
        }
    }
}

impl Display for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(place) => place.path().display().fmt(f),
            Self::Bucket(words) => words.fmt(f),
        }
    }
}
