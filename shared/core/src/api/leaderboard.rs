use serde::{Deserialize, Deserializer, Serialize};

use super::ProblemFilter;
use super::problem_filter::size;
use super::query::{from_text, whole_number};
use crate::ids::ProblemId;
use crate::named_enum::named_enum;
use crate::{Comparison, Config, DType, Layout, Method, Op, Problem};

named_enum! {
    /// What a leaderboard is sorted by. All but `ratio` and `flops` are figures of the kernels that are
    /// ranked.
    LeaderboardSort("sort") {
        /// TFLOP/s of the best config.
        Tflops = "tflops",
        /// Time of the best config.
        Time = "time",
        /// Share of the roofline.
        Roofline = "roofline",
        /// Time of the best default config / time of the best config.
        Gain = "gain",
        /// Time of the library kernel / time of the best Triton config.
        Ratio = "ratio",
        /// Number of operations of the problem.
        Flops = "flops",
    }
}

named_enum! {
    /// Which kernels a leaderboard ranks.
    Kernels("kernels") {
        /// All configs but the library kernel.
        Triton = "triton",
        /// The library kernel alone.
        Library = "library",
        /// All configs.
        Everything = "everything",
    }
}

named_enum! {
    SortOrder("order") {
        Descending = "desc",
        Ascending = "asc",
    }
}

/// The filters of a leaderboard. In a URL every field is optional.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct LeaderboardQuery {
    #[serde(deserialize_with = "from_text")]
    pub op: Option<Op>,
    #[serde(deserialize_with = "from_text")]
    pub dtype: Option<DType>,
    /// Layout of the second operand; `column` is what `nn.Linear` gives.
    #[serde(deserialize_with = "from_text")]
    pub b_layout: Option<Layout>,
    #[serde(deserialize_with = "from_text")]
    pub method: Option<Method>,
    #[serde(deserialize_with = "size")]
    pub min_m: Option<u64>,
    #[serde(deserialize_with = "size")]
    pub max_m: Option<u64>,
    #[serde(deserialize_with = "size")]
    pub min_n: Option<u64>,
    #[serde(deserialize_with = "size")]
    pub max_n: Option<u64>,
    #[serde(deserialize_with = "size")]
    pub min_k: Option<u64>,
    #[serde(deserialize_with = "size")]
    pub max_k: Option<u64>,
    /// What is sorted by is a figure of these kernels; of everything unless given.
    #[serde(deserialize_with = "from_text")]
    pub kernels: Option<Kernels>,
    #[serde(deserialize_with = "from_text")]
    pub sort: Option<LeaderboardSort>,
    #[serde(deserialize_with = "from_text")]
    pub order: Option<SortOrder>,
    /// Rows per page, 1 to 500; 50 unless given.
    #[serde(deserialize_with = "limit")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 500))]
    pub limit: Option<u32>,
    /// Where the page before ended.
    #[serde(deserialize_with = "from_text")]
    pub cursor: Option<String>,
}

impl LeaderboardQuery {
    /// The filter of the rows, without their order and page.
    pub fn filter(&self) -> ProblemFilter {
        let Self { op, dtype, b_layout, method, min_m, max_m, min_n, max_n, min_k, max_k, .. } = *self;
        ProblemFilter { op, dtype, b_layout, method, min_m, max_m, min_n, max_n, min_k, max_k }
    }
}

fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    /// Enough for programs that read everything, and few enough for a quick answer.
    const MAX: u32 = 500;
    whole_number(deserializer, 1..=MAX)
}

/// A page of a leaderboard with what all its rows make together. Written out, since a flattened
/// [`Page`](super::Page) costs the dashboard's download some kilobytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Leaderboard {
    pub items: Vec<LeaderboardRow>,
    /// How many rows match in all.
    pub total: u64,
    /// Pass as `cursor` for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Triton and the library on all problems that the filters leave.
    pub comparison: Comparison,
}

/// The fastest of some kernels on a problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KernelResult {
    pub config: Config,
    pub us: f64,
    /// The rate; absent where the hardware's peak for the dtype is unknown.
    pub tflops: Option<f64>,
    /// Roofline time / time; absent under the same condition.
    pub roofline_share: Option<f64>,
    /// Time of the best of Inductor's default configs / time; absent if none was timed.
    pub gain_over_defaults: Option<f64>,
    /// Interquartile range of the repeats / time, where known: the median over solutions.
    pub spread: Option<f64>,
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
    /// The rate; absent where the hardware's peak for the dtype is unknown: nothing bounds the time then.
    pub tflops: Option<f64>,
    /// Roofline time / best time; absent under the same condition.
    pub roofline_share: Option<f64>,
    /// Best of Inductor's default configs / best; absent if none was timed.
    pub gain_over_defaults: Option<f64>,
    /// Time of the library kernel, if it was timed.
    pub library_us: Option<f64>,
    /// The best Triton config: the fastest of all but the library kernel.
    pub triton: Option<KernelResult>,
    /// The library kernel.
    pub library: Option<KernelResult>,
    /// Time of the library kernel / time of the best Triton config: above 1 where Triton is faster. Absent
    /// if one of them was not timed, and where Triton rounds to TF32, which the library was not allowed.
    pub triton_over_library: Option<f64>,
    /// Other Triton configs that are as fast as the best to 1 %.
    #[serde(default)]
    pub triton_ties: u64,
    /// Distinct configs timed.
    pub configs: u64,
    /// Uploads that timed this problem.
    pub solutions: u64,
    /// Contributors that sent them.
    #[serde(default)]
    pub contributors: u64,
    /// Whether one contributor alone has timed the best config.
    #[serde(default)]
    pub unconfirmed: bool,
}
