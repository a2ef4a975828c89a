use diode_core::ids::Digest;
use object_store::path::Path;
use serde::{Deserialize, Serialize};

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

    pub(super) fn path(self, digest: &Digest) -> Path {
        Path::from(format!("{}/{digest}{}", self.folder(), self.extension()))
    }
}
