//! Where a dataset comes from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Who measured, when and with what.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Provenance {
    /// The program that measured: `diode 0.1.0`. `None` for imported files that do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// When collection began, as RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collected_at: Option<String>,
    /// Facts of the node: driver, power cap, toolchain, whatever it knew.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node: BTreeMap<String, String>,
}
