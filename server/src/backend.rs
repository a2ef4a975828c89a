//! The data that handlers, worker and admin commands work on: rows and blobs.

use std::sync::Arc;

use diode_core::Invalid;
use diode_core::hardware::Hardware;
use diode_core::ids::{Digest, UploadId};

use crate::blobs::{BlobKind, Blobs};
use crate::settings::Settings;
use crate::store::{self, Store, StoreResult};

#[derive(Clone)]
pub struct Backend {
    pub store: Arc<dyn Store>,
    pub blobs: Blobs,
    /// Bytes of uploaded files that are kept at most.
    pub max_stored: u64,
    /// Whether made-up times are taken, for trying the server out.
    pub accept_simulated: bool,
}

impl Backend {
    /// Opens what the settings name, creating and migrating it where needed.
    pub async fn open(settings: &Settings) -> anyhow::Result<Self> {
        let blobs = Blobs::open(&settings.blobs)?;
        let store = store::open(&settings.database_url).await?;
        Ok(Self {
            store,
            blobs,
            max_stored: settings.max_stored,
            accept_simulated: settings.accept_simulated,
        })
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

    /// Removes the files of uploads that were deleted.
    pub(crate) async fn forget_uploads(&self, files: Vec<Digest>) -> StoreResult<()> {
        for digest in files {
            // Somebody else may have sent the same file just now.
            if self.store.receipt(&UploadId::of_digest(&digest)).await?.is_some() {
                continue;
            }
            // No row names it any more, so `admin sweep` removes it if this fails.
            if let Err(error) = self.blobs.remove(BlobKind::Upload, &digest).await {
                tracing::warn!("the file of a deleted upload stays: {error}");
            }
        }
        Ok(())
    }
}
