//! The data that handlers, worker and admin commands work on: rows and blobs.

use std::sync::Arc;

use anyhow::Context as _;
use axum::body::Bytes;
use diode_core::Invalid;
use diode_core::hardware::Hardware;
use diode_core::ids::{Digest, UploadId};

use crate::blobs::{BlobError, BlobKey, BlobKind, Blobs};
use crate::metrics::Metrics;
use crate::settings::{Settings, Snapshots, without_password};
use crate::store::{self, Store, StoreResult};
use crate::storing::Storing;
use crate::traces::Traces;

/// The quota is used up.
#[derive(Debug, thiserror::Error)]
#[error(
    "the server keeps at most {} MB of files and has {} MB; its operator may raise max_stored_mb",
    limit / 1_000_000, stored / 1_000_000
)]
pub struct NoRoom {
    stored: u64,
    limit: u64,
}

fn cannot_open(settings: &Settings) -> String {
    format!("cannot open {}", without_password(&settings.database_url))
}

#[derive(Clone)]
pub struct Backend {
    pub store: Arc<dyn Store>,
    pub blobs: Blobs,
    /// Bytes of uploads and contributed models that are kept at most.
    pub max_stored: u64,
    /// Whether made-up times are taken, for trying the server out.
    pub accept_simulated: bool,
    /// When the data of a hardware are frozen, and how much of it is kept.
    pub snapshots: Snapshots,
    /// What this process counts.
    pub metrics: Metrics,
    /// What this process tells a collector of its requests and jobs.
    pub traces: Traces,
    /// Uploads that this process is storing.
    pub storing: Storing,
}

impl Backend {
    /// Opens what the settings name, creating and migrating it where needed.
    pub async fn open(settings: &Settings) -> anyhow::Result<Self> {
        let store = store::open(&settings.database_url).await;
        Self::with(store.with_context(|| cannot_open(settings))?, settings).await
    }

    /// The same where a database must be there, for commands that look after one.
    pub async fn open_existing(settings: &Settings) -> anyhow::Result<Self> {
        let store = store::open_existing(&settings.database_url).await;
        Self::with(store.with_context(|| cannot_open(settings))?, settings).await
    }

    /// The database first: where it cannot be opened, no folder for files is made.
    async fn with(store: Arc<dyn Store>, settings: &Settings) -> anyhow::Result<Self> {
        let blobs = Blobs::open(&settings.blobs).await?;
        Ok(Self {
            store,
            blobs,
            max_stored: settings.max_stored,
            accept_simulated: settings.accept_simulated,
            snapshots: settings.snapshots,
            metrics: Metrics::default(),
            traces: Traces::default(),
            storing: Storing::default(),
        })
    }

    /// The same with spans, if the settings name a collector. Commands that end at once make none.
    pub fn traced(self, settings: &Settings) -> anyhow::Result<Self> {
        let traces = settings.otlp_endpoint.as_ref().map(Traces::to).transpose()?;
        Ok(Self { traces: traces.unwrap_or_default(), ..self })
    }

    /// Fails if a file that somebody sends is one too many.
    pub(crate) async fn room_for(&self, bytes: usize) -> StoreResult<Result<(), NoRoom>> {
        let (stored, limit) = (self.store.stored_bytes().await?, self.max_stored);
        let fits = stored.saturating_add(bytes as u64) <= limit;
        Ok(if fits { Ok(()) } else { Err(NoRoom { stored, limit }) })
    }

    /// Fails for hardware whose times are made up, unless this server takes them.
    pub(crate) fn refuse_simulated(&self, hardware: &Hardware) -> Result<(), Invalid> {
        if self.accept_simulated || !hardware.is_simulated() {
            return Ok(());
        }
        Err(Invalid::new(
            "hardware",
            format_args!("`{}`, whose times are made up", hardware.slug),
            "real hardware; a server takes simulated times if it is started with --accept-simulated",
        ))
    }

    /// Stores a file anew if it was [forgotten](Self::forget) since, just before what names it was added.
    pub(crate) async fn restore(
        &self,
        kind: BlobKind,
        digest: &Digest,
        bytes: Bytes,
    ) -> Result<(), BlobError> {
        match self.blobs.size(kind, digest).await? {
            Some(_) => Ok(()),
            None => self.blobs.put(kind, digest, bytes).await,
        }
    }

    /// Removes the files of uploads and models that were deleted, and of snapshots that held uploads.
    pub(crate) async fn forget(&self, files: Vec<BlobKey>) -> StoreResult<()> {
        for (kind, digest) in files {
            // Who sends the same upload or model waits until it is gone, and then stores it anew.
            let _held = match kind {
                BlobKind::Upload | BlobKind::Model => Some(self.store.hold_file(kind, &digest).await?),
                BlobKind::Snapshot | BlobKind::Pack => None,
            };
            // Somebody else may have stored the same file just now.
            let is_named = match kind {
                BlobKind::Upload => self.store.receipt(&UploadId::of_digest(&digest)).await?.is_some(),
                BlobKind::Snapshot => self.store.names_snapshot_file(&digest).await?,
                BlobKind::Model => self.store.names_model_file(&digest).await?,
                // Nothing that is deleted has such files.
                BlobKind::Pack => true,
            };
            if is_named {
                continue;
            }
            // No row names it any more, so `admin sweep` removes it if this fails.
            if let Err(error) = self.blobs.remove(kind, &digest).await {
                tracing::warn!("a file that nothing names any more stays: {error}");
            }
        }
        Ok(())
    }
}
