use serde::{Deserialize, Serialize};

use super::SizeRange;
use crate::Method;

/// The measured problems of a hardware by M and N.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SizeMap {
    pub method: Method,
    /// The classes of K among the problems that the filters leave, whatever K they want; by K.
    pub depths: Vec<SizeClass>,
    /// In the order of M, then of N; those that have problems.
    pub cells: Vec<SizeCell>,
}

/// Problems whose K is about the same: within a factor of √2 of a power of two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SizeClass {
    pub k: SizeRange,
    pub problems: u64,
}

/// Problems whose M and N are about the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SizeCell {
    pub m: SizeRange,
    pub n: SizeRange,
    pub problems: u64,
    /// Those where both Triton and the library were timed.
    pub compared: u64,
    /// The geometric mean over them of library time / time of the best Triton config.
    pub triton_over_library: Option<f64>,
    /// M, N and K of the tile that is most often that of the best Triton config.
    pub tile: Option<[u32; 3]>,
    /// How often it is.
    pub tile_problems: u64,
}
