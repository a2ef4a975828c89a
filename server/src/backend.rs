//! The data that handlers, worker and admin commands work on: rows and blobs.

use std::sync::Arc;

use crate::blobs::Blobs;
use crate::settings::Settings;
use crate::store::{self, Store};

#[derive(Clone)]
pub struct Backend {
    pub store: Arc<dyn Store>,
    pub blobs: Blobs,
    /// Bytes of uploaded files that are kept at most.
    pub max_stored: u64,
}

impl Backend {
    /// Opens what the settings name, creating and migrating it where needed.
    pub async fn open(settings: &Settings) -> anyhow::Result<Self> {
        let blobs = Blobs::open(&settings.blobs)?;
        let store = store::open(&settings.database_url).await?;
        Ok(Self { store, blobs, max_stored: settings.max_stored })
    }
}
