use serde::{Deserialize, Serialize};

use crate::ids::{Digest, HardwareSlug, UploadId};

/// The most bytes an upload may have. The largest collection in use, 209 problems
/// of 1,534 configs, is 57 MB in torch-diode's MessagePack and 0.5 MB in ours.
pub const MAX_UPLOAD_BYTES: usize = 64 * 1024 * 1024;

/// The most timings and failures an upload may hold: thirteen times the largest
/// collection in use. While it is decoded, each takes up to 32 bytes.
pub const MAX_UPLOAD_TIMINGS: usize = 1 << 22;

/// What the server stored. It is returned only once everything is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Receipt {
    pub id: UploadId,
    /// SHA-256 of the bytes that were sent.
    pub digest: Digest,
    pub bytes: u64,
    /// The format that was recognised: `torch-diode-json`, `torch-diode-msgpack` or `columnar`.
    pub format: String,
    /// When the upload was first stored, as RFC 3339.
    pub received_at: String,
    pub hardware: Vec<HardwareReceipt>,
    /// Solutions this upload added.
    pub new_solutions: u64,
    /// Solutions that another upload had already brought with the same timings.
    pub duplicate_solutions: u64,
    /// Whether these very bytes had been uploaded before; then nothing changed.
    pub already_stored: bool,
}

/// What an upload holds for one kind of hardware.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HardwareReceipt {
    pub slug: HardwareSlug,
    pub name: String,
    pub problems: u64,
    pub timings: u64,
    pub failures: u64,
}
