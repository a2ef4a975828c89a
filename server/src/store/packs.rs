//! Kernel packs in domain words.

use async_trait::async_trait;
use diode_core::api::PackSummary;
use diode_core::ids::Digest;

use super::error::StoreResult;

/// What the server remembers of kernel packs; their bytes are blobs. Every method is one transaction.
#[async_trait]
pub trait PackStore: Send + Sync {
    /// Adds a pack; `false` if it was there already.
    async fn add_pack(&self, pack: &PackSummary) -> StoreResult<bool>;

    /// The newest packs, for an architecture or of all; the newest first.
    async fn packs(&self, architecture: Option<&str>, newest: u32) -> StoreResult<Vec<PackSummary>>;

    /// One pack; `None` if there is none by this digest.
    async fn pack(&self, digest: &Digest) -> StoreResult<Option<PackSummary>>;

    /// Removes a pack; `false` if there was none.
    async fn remove_pack(&self, digest: &Digest) -> StoreResult<bool>;
}
