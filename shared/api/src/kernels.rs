use serde::{Deserialize, Serialize};

use diode_core::KernelVariant;
use diode_core::ids::{AccountName, Digest};

/// The most bytes of a kernel pack: a hundred times the size of the full space for one variant.
pub const MAX_PACK_BYTES: u64 = 1 << 30;

/// A kernel pack that can be pulled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PackSummary {
    /// The digest of the whole content. A program that pulls the pack refuses anything else.
    pub digest: Digest,
    /// The digest of its file.
    pub sha256: Digest,
    /// The GPUs that it is for: `sm_90`, `gfx942`.
    pub architecture: String,
    /// The version of Triton that compiled it.
    pub triton: Option<String>,
    /// How its kernels are launched. Programs that launch them otherwise leave it alone.
    pub abi: Option<String>,
    /// The space of its configs.
    pub space: Option<String>,
    pub bytes: u64,
    /// What its kernels compute.
    pub variants: Vec<PackVariant>,
    pub published_at: String,
    /// The administrator who has published it.
    pub published_by: Option<AccountName>,
    /// Whether it was there before.
    #[serde(default)]
    pub already_stored: bool,
}

/// The kernels of one variant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PackVariant {
    pub variant: KernelVariant,
    /// Those that the pack knows, also the ones that cannot be compiled.
    pub kernels: u64,
}
