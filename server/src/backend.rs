//! The data that handlers, worker and admin commands share: rows and blobs.

use std::sync::Arc;

use anyhow::Context as _;
use diode_core::ids::UploadId;

use crate::blobs::{BlobKey, BlobKind, BlobPlace, Blobs};
use crate::metrics::Metrics;
use crate::settings::{Data, without_password};
use crate::store::{self, SnapshotLimits, Store, StoreResult};
use crate::uploads::ingest::Storing;

fn cannot_open(data: &Data) -> String {
    format!("cannot open {}", without_password(&data.database_url))
}

#[derive(Clone)]
pub struct Backend {
    pub store: Arc<Store>,
    pub blobs: Blobs,
    /// The most bytes of uploads and contributed models that the server keeps.
    pub max_stored: u64,
    /// Whether simulated times are accepted, to try the server out.
    pub accept_simulated: bool,
    /// Whether the data of a hardware is frozen when a model of it is published after a training.
    pub auto_snapshot: bool,
    /// How many snapshots are kept.
    pub snapshots: SnapshotLimits,
    /// The counters of this process.
    pub metrics: Metrics,
    /// The uploads that this process is storing.
    pub storing: Storing,
}

impl Backend {
    /// Opens the database and the blobs that the settings name. Creates and migrates them where needed.
    pub async fn open(data: &Data) -> anyhow::Result<Self> {
        let place = data.place()?;
        let store = store::open(&data.database_url).await;
        Self::with(store.with_context(|| cannot_open(data))?, &place, data).await
    }

    /// Opens the database and the blobs for commands that look after existing data. Fails if the database does
    /// not exist.
    pub async fn open_existing(data: &Data) -> anyhow::Result<Self> {
        let place = data.place()?;
        let store = store::open_existing(&data.database_url).await;
        Self::with(store.with_context(|| cannot_open(data))?, &place, data).await
    }

    /// The database is opened first: if that fails, no folder for files is created.
    async fn with(store: Arc<Store>, place: &BlobPlace, data: &Data) -> anyhow::Result<Self> {
        let blobs = Blobs::open(place).await?;
        Ok(Self {
            store,
            blobs,
            max_stored: data.max_stored_mb.saturating_mul(1_000_000),
            accept_simulated: data.accept_simulated,
            auto_snapshot: data.snapshots.automatic,
            snapshots: data.snapshots.limits(),
            metrics: Metrics::default(),
            storing: Storing::default(),
        })
    }

    /// Removes the files of deleted uploads and models, and of snapshots that held uploads.
    pub(crate) async fn forget(&self, files: Vec<BlobKey>) -> StoreResult<()> {
        for (kind, digest) in files {
            // Whoever sends the same upload or model waits until the file is removed, and then stores it
            // again.
            let _held = match kind {
                BlobKind::Upload | BlobKind::Model => Some(self.store.hold_file(kind, &digest).await?),
                BlobKind::Snapshot | BlobKind::Pack => None,
            };
            // Somebody else may have stored the same file just now.
            let is_named = match kind {
                BlobKind::Upload => self.store.receipt(&UploadId::of_digest(&digest)).await?.is_some(),
                BlobKind::Snapshot => self.store.names_snapshot_file(&digest).await?,
                BlobKind::Model => self.store.names_model_file(&digest).await?,
                // A pack's file is never removed here: `admin sweep` removes it.
                BlobKind::Pack => true,
            };
            if is_named {
                continue;
            }
            // No row names the file any more, so `admin sweep` removes it if this fails.
            if let Err(error) = self.blobs.remove(kind, &digest).await {
                tracing::warn!("a file that nothing names any more stays: {error}");
            }
        }
        Ok(())
    }
}
