use serde::{Deserialize, Serialize};

use crate::ids::ProblemId;
use crate::named_enum::named_enum;
use crate::{Config, DType, Layout, Method, Op, Problem};

named_enum! {
    /// What a leaderboard is sorted by.
    LeaderboardSort("sort") {
        /// TFLOP/s of the best config.
        Tflops = "tflops",
        /// Time of the best config.
        Time = "time",
        /// Share of the roofline.
        Roofline = "roofline",
        /// Best of Inductor's default configs / best.
        Gain = "gain",
        /// Size of the problem in operations.
        Flops = "flops",
    }
}

named_enum! {
    SortOrder("order") {
        Descending = "desc",
        Ascending = "asc",
    }
}

/// The filters of a leaderboard. In a URL every field is optional.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema, utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct LeaderboardQuery {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<Op>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<DType>,
    /// Layout of the second operand; `column` is what `nn.Linear` gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b_layout: Option<Layout>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_m: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_m: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_n: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_n: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_k: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_k: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort: Option<LeaderboardSort>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<SortOrder>,
    /// Rows per page, 1 to 500; 50 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// The best known config of one problem, by one method of timing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeaderboardRow {
    pub problem_id: ProblemId,
    pub problem: Problem,
    pub method: Method,
    pub best: Config,
    pub best_us: f64,
    pub tflops: f64,
    /// Roofline time / best time; absent without hardware facts.
    pub roofline_share: Option<f64>,
    /// Best of Inductor's default configs / best; absent if none was timed.
    pub gain_over_defaults: Option<f64>,
    /// Time of the library kernel, if it was timed.
    pub library_us: Option<f64>,
    /// Distinct configs timed.
    pub configs: u64,
    /// Uploads that timed this problem.
    pub solutions: u64,
}
