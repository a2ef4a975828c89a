use serde::{Deserialize, Serialize};

use super::NearestProblem;
use crate::Method;
use crate::ids::HardwareSlug;

/// What one hardware says about a shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ShapeOnHardware {
    pub hardware: HardwareSlug,
    pub name: String,
    /// The method of the times; absent where nothing was measured.
    pub method: Option<Method>,
    /// Whether the items have exactly the sizes asked for. If not, they are the nearest.
    pub exact: bool,
    pub items: Vec<NearestProblem>,
    /// Models that can predict what was not measured.
    pub models: u64,
}
