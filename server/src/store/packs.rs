//! What the rest of the server may ask of the store about kernel packs.

use async_trait::async_trait;
use diode_api::PackSummary;
use diode_core::ids::Digest;

use super::error::StoreResult;

/// What the server stores about kernel packs. Their bytes are blobs. Every method is one transaction.
#[async_trait]
pub trait PackStore: Send + Sync {
    /// Adds a pack; `false` if it existed already.
    async fn add_pack(&self, pack: &PackSummary) -> StoreResult<bool>;

    /// The newest packs, for one architecture or for all, the newest first.
    async fn packs(&self, architecture: Option<&str>, newest: u32) -> StoreResult<Vec<PackSummary>>;

    /// One pack; `None` if there is none with this digest.
    async fn pack(&self, digest: &Digest) -> StoreResult<Option<PackSummary>>;

    /// Removes a pack; `false` if there was none.
    async fn remove_pack(&self, digest: &Digest) -> StoreResult<bool>;
}
