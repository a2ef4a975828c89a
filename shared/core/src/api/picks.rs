use serde::{Deserialize, Serialize};

use crate::Config;
use crate::ids::{ModelId, ProblemId};

/// The most problems in one request. For each, the server ranks a space and reads timings.
pub const MAX_PICKED: usize = 50;

/// What the best model of a hardware picks for some problems, beside what was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Picks {
    /// Absent if there is no model for the hardware.
    pub model: Option<ModelId>,
    /// Those problems that were measured and that the model can rank, in the order asked for.
    pub items: Vec<Pick>,
}

/// The first pick for one problem. The model may have been trained on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Pick {
    pub problem_id: ProblemId,
    pub config: Config,
    pub predicted_us: f64,
    /// The measured time of the pick, if it was timed.
    pub us: Option<f64>,
    /// Best time of all configs, the library's among them / measured time of the pick. Configs that round to TF32 are
    /// compared with one another only.
    pub share_of_best: Option<f64>,
}
