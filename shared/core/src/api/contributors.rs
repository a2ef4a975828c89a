use serde::{Deserialize, Serialize};

use crate::ids::AccountName;

/// What one contributor has measured on a hardware, of what counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HardwareContributor {
    /// Absent for all that was sent without an account, which is one contributor.
    pub name: Option<AccountName>,
    pub problems: u64,
    pub solutions: u64,
    pub timings: u64,
    /// Its uploads with a solution on this hardware.
    pub uploads: u64,
    /// When the newest of them arrived, as RFC 3339.
    pub newest_at: String,
    /// The mean over those uploads of the logarithm of their times / those of the other contributors, weighted
    /// by the problems compared. Absent as long as too few others measured the same.
    pub log_ratio: Option<f64>,
    /// The problems behind `log_ratio`.
    pub compared_problems: u64,
}
