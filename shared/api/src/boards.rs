use diode_core::ids::{HardwareSlug, ProblemId};
use diode_core::named_enum::named_enum;
use diode_core::{Comparison, Config, DType, Layout, Method, Op, Problem, Scaling};
use serde::{Deserialize, Deserializer, Serialize};

use crate::query::{from_text, whole_number};
use crate::{NearestProblem, SizeRange};

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

/// The order of a leaderboard and a page of it, beside a [`ProblemFilter`]. In a URL every field is optional.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct LeaderboardQuery {
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

fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    /// Enough for programs that read everything, and few enough for a quick answer.
    const MAX: u32 = 500;
    whole_number(deserializer, 1..=MAX)
}

/// A page of a leaderboard with what all its rows make together. Written out, since a flattened
/// [`Page`](crate::Page) costs the dashboard's download some kilobytes.
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

/// Which problems of a hardware are meant. In a URL every field is optional.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct ProblemFilter {
    #[serde(deserialize_with = "from_text")]
    pub op: Option<Op>,
    #[serde(deserialize_with = "from_text")]
    pub dtype: Option<DType>,
    /// How operands are scaled.
    #[serde(deserialize_with = "from_text")]
    pub scaling: Option<Scaling>,
    /// Layout of the second operand; `column` is what `nn.Linear` gives.
    #[serde(deserialize_with = "from_text")]
    pub b_layout: Option<Layout>,
    /// Whether N and K are multiples of 8, so that the rows of 16-bit matrices begin at multiples of 16 bytes.
    #[serde(deserialize_with = "from_text")]
    pub aligned: Option<bool>,
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
}

pub(super) fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    /// The largest integer of the type `int64`, which the API's description names.
    const MAX: u64 = i64::MAX as u64;
    whole_number(deserializer, 0..=MAX)
}

impl ProblemFilter {
    /// Whether a problem passes the filter. `method` is ignored, since a problem has none.
    pub fn admits(&self, problem: &Problem) -> bool {
        let Self {
            op,
            dtype,
            scaling,
            b_layout,
            aligned,
            method: _,
            min_m,
            max_m,
            min_n,
            max_n,
            min_k,
            max_k,
        } = *self;
        let within = |size: u64, least: Option<u64>, most: Option<u64>| {
            least.is_none_or(|least| size >= least) && most.is_none_or(|most| size <= most)
        };
        op.is_none_or(|op| op == problem.op)
            && dtype.is_none_or(|dtype| dtype == problem.a_dtype)
            && scaling.is_none_or(|scaling| scaling == problem.scaling)
            && b_layout.is_none_or(|layout| layout == problem.b_layout)
            && aligned
                .is_none_or(|aligned| aligned == [problem.n, problem.k].iter().all(|size| size % 8 == 0))
            && within(problem.m, min_m, max_m)
            && within(problem.n, min_n, max_n)
            && within(problem.k, min_k, max_k)
    }
}

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

named_enum! {
    /// What a finding is about.
    FindingKind("kind") {
        /// Problems whose rows are not aligned.
        Alignment = "alignment",
        /// Where a greater hardware is slower than a lesser one.
        Hardware = "hardware",
        /// Where Triton is furthest ahead of the library.
        TritonLeads = "triton_leads",
        /// Where the library is furthest ahead of Triton.
        LibraryLeads = "library_leads",
        /// What the best config gains over Inductor's default configs.
        Gain = "gain",
        /// What fp8 gains over bfloat16.
        Fp8 = "fp8",
        /// What fp8 gains for experts and other groups.
        Experts = "experts",
        /// Where a newer version of the vendor's library is slower.
        LibraryVersion = "library_version",
    }
}

/// What stands out in measurements, and what it takes to stand out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Findings {
    /// Each finding rests on at least so many problems.
    pub min_problems: u64,
    /// And on a difference of at least this share.
    pub min_gain: f64,
    pub items: Vec<Finding>,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Finding {
    pub hardware: HardwareSlug,
    /// The hardware's name.
    pub name: String,
    pub kind: FindingKind,
    pub sentence: String,
    /// How many problems it is about.
    pub problems: u64,
    /// Of how many that were looked at.
    pub of: u64,
    /// The first ratio that the sentence states.
    pub ratio: f64,
    /// The page that lists the problems: a path with its query.
    pub link: String,
}

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

#[cfg(test)]
mod problem_filter_tests {
    use super::*;
    use diode_core::ProblemFields;

    #[test]
    fn filters_admit_what_is_within_their_bounds() {
        let problem = Problem::new(ProblemFields::plain(Op::Mm, 1, 64, 128, 32, DType::BFloat16)).unwrap();
        let admits = |filter: ProblemFilter| filter.admits(&problem);
        assert!(admits(ProblemFilter::default()));
        assert!(admits(ProblemFilter {
            min_m: Some(64),
            max_n: Some(128),
            op: Some(Op::Mm),
            ..Default::default()
        }));
        assert!(!admits(ProblemFilter { min_m: Some(65), ..Default::default() }));
        assert!(!admits(ProblemFilter { max_k: Some(31), ..Default::default() }));
        assert!(!admits(ProblemFilter { dtype: Some(DType::Float16), ..Default::default() }));
        assert!(!admits(ProblemFilter { b_layout: Some(Layout::Column), ..Default::default() }));
        assert!(admits(ProblemFilter { aligned: Some(true), ..Default::default() }));
        assert!(!admits(ProblemFilter { aligned: Some(false), ..Default::default() }));
        assert!(admits(ProblemFilter { scaling: Some(Scaling::None), ..Default::default() }));
        assert!(!admits(ProblemFilter { scaling: Some(Scaling::Row), ..Default::default() }));
    }
}
