use serde::{Deserialize, Serialize};

use crate::{Config, Method};

/// How few configs are enough for the problems of a hardware: a list in which each config covers the most of
/// what those before it leave. A config **covers** a problem if it is within 5 % of its best Triton config.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ConfigCover {
    pub method: Method,
    /// The problems that the filters leave and for which a Triton config was timed.
    pub problems: u64,
    /// How many of them the list was made from: an even sample where there are more than 4,000.
    pub sampled: u64,
    /// 128 at most; fewer if no further config is within 5 % anywhere, nor faster.
    pub steps: Vec<CoverStep>,
}

/// What the list up to and with one config reaches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CoverStep {
    /// `even_k` is false: it follows from the problem's K.
    pub config: Config,
    /// Problems that the list covers so far.
    pub covered: u64,
    /// The same as a share of the sampled problems.
    pub share: f64,
    /// Problems for which a config of the list was timed. For the others it may be too large, or nobody has
    /// tried.
    pub timed: u64,
    /// Geometric mean over those of best time / best time in the list.
    pub share_of_best: f64,
}
