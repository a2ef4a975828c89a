//! Where blobs are kept: a folder, or a bucket of S3-compatible storage.

use std::collections::BTreeMap;
use std::env::temp_dir;
use std::fmt::{Debug, Display};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use diode_core::ids::Digest;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path as BlobPath;
use serde::{Deserialize, Serialize};

use crate::blobs::BlobError;
use crate::readiness::PathIdentity;

/// The variables with which programs prove to the storage who they are, under the names that the storage's own
/// tools read. There is no flag or setting for them, because others could read it.
const KEYS: [&str; 9] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
];

/// Where blobs are kept.
#[derive(Debug, Clone)]
pub enum BlobPlace {
    Folder(PathBuf),
    Bucket(Bucket),
}

/// A bucket, and how to reach it.
#[derive(Debug, Clone)]
pub struct Bucket {
    pub name: String,
    /// The start of the names of all files in the bucket; may be empty.
    pub prefix: String,
    /// The address of the storage; `None` for Amazon's.
    pub endpoint: Option<String>,
    pub region: String,
    /// Whether addresses have the bucket's name in their path. Otherwise they have it in their host.
    pub path_style: bool,
    /// Certificates to trust instead of the public ones.
    pub ca: Option<PathBuf>,
    /// Whether an endpoint beyond this machine may be without TLS.
    pub allow_http: bool,
    pub keys: Keys,
}

impl Bucket {
    /// The address that requests go to; `None` for Amazon's own.
    pub fn address(&self) -> Option<String> {
        let endpoint = self.endpoint.as_deref()?;
        match endpoint.split_once("://") {
            Some((scheme, host)) if !self.path_style => Some(format!("{scheme}://{}.{host}", self.name)),
            _ => Some(endpoint.to_owned()),
        }
    }
}

impl Display for BlobPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => Display::fmt(&folder.display(), f),
            Self::Bucket(bucket) => Display::fmt(bucket, f),
        }
    }
}

impl Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, prefix, .. } = self;
        let slash = if prefix.is_empty() { "" } else { "/" };
        write!(f, "s3://{name}{slash}{prefix}")
    }
}

/// The values that prove to the storage who asks, by the names of their variables. They are never shown.
#[derive(Clone, Default)]
pub struct Keys(BTreeMap<&'static str, String>);

impl Keys {
    /// An access key and its secret.
    pub fn new(id: &str, secret: &str) -> Self {
        let [id_name, secret_name, ..] = KEYS;
        Self([(id_name, id.to_owned()), (secret_name, secret.to_owned())].into())
    }

    /// Without any of them, the library uses the identity of the machine, which Amazon's machines have.
    pub fn from_environment() -> Self {
        let given = |name| Some((name, std::env::var(name).ok().filter(|value| !value.is_empty())?));
        Self(KEYS.into_iter().filter_map(given).collect())
    }

    pub fn values(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }
}

impl Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

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
            Self::Folder(place) => Display::fmt(&place.path().display(), f),
            Self::Bucket(words) => f.write_str(words),
        }
    }
}

/// What a blob holds. Each kind has a folder of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BlobKind {
    Upload,
    Model,
    Pack,
    /// A file of a snapshot.
    Snapshot,
}

/// The key of one blob.
pub type BlobKey = (BlobKind, Digest);

impl BlobKind {
    pub(super) const ALL: [Self; 4] = [Self::Upload, Self::Model, Self::Pack, Self::Snapshot];

    pub(crate) const fn folder(self) -> &'static str {
        match self {
            Self::Upload => "uploads",
            Self::Model => "models",
            Self::Pack => "packs",
            Self::Snapshot => "snapshots",
        }
    }

    pub(super) const fn extension(self) -> &'static str {
        match self {
            Self::Upload | Self::Snapshot => "",
            Self::Model => ".safetensors",
            Self::Pack => ".pack",
        }
    }

    pub(super) fn path(self, digest: &Digest) -> BlobPath {
        BlobPath::from(format!("{}/{digest}{}", self.folder(), self.extension()))
    }
}
