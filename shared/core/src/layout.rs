//! How matrices lie in memory.

use crate::named_enum::named_enum;

named_enum! {
    /// The order of an input matrix in memory.
    Layout("layout") {
        /// Rows are contiguous, as in torch's default ("n").
        Row = "row",
        /// Columns are contiguous, as in the transposed weight of `nn.Linear` ("t").
        Column = "column",
    }
}

/// An output that is not the dense row-major tensor of shape (B, M, N).
///
/// torch-diode records the output's size and stride as triples. A dense
/// row-major output is the normal case and is stored as `None` on the problem,
/// so that two ways of writing the same thing have one identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OutputLayout {
    pub size: [u64; 3],
    pub stride: [u64; 3],
}

impl OutputLayout {
    /// The dense row-major layout of a (B, M, N) output.
    pub const fn dense(b: u64, m: u64, n: u64) -> Self {
        Self { size: [b, m, n], stride: [m.saturating_mul(n), n, 1] }
    }
}
