use serde::{Deserialize, Deserializer, Serialize};

use super::problem_filter::size;
use super::query::{from_text, whole_number};
use super::{Kernels, ProblemFilter, SortOrder};
use crate::ids::ProblemId;
use crate::{Config, DType, Invalid, Layout, Method, Op, Problem};

/// Two of a kind to compare, on the problems that both measured by one method. In a URL every field but `a`
/// and `b` is optional.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct RatioQuery {
    #[cfg_attr(feature = "openapi", param(required = true))]
    pub a: String,
    #[cfg_attr(feature = "openapi", param(required = true))]
    pub b: String,
    /// Whose times are compared; Triton's unless given, and the library's where libraries are compared.
    #[serde(deserialize_with = "from_text")]
    pub kernels: Option<Kernels>,
    /// Times that differ by so many per cent at most count as the same; 2 unless given.
    #[serde(deserialize_with = "from_text")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<f64>))]
    pub noise: Option<Noise>,
    /// `asc`, unless given, begins with what is slower with `b`.
    #[serde(deserialize_with = "from_text")]
    pub order: Option<SortOrder>,
    /// Rows, 1 to 500; 50 unless given.
    #[serde(deserialize_with = "limit")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 500))]
    pub limit: Option<u32>,
    #[serde(deserialize_with = "from_text")]
    pub op: Option<Op>,
    #[serde(deserialize_with = "from_text")]
    pub dtype: Option<DType>,
    /// Layout of the second operand.
    #[serde(deserialize_with = "from_text")]
    pub b_layout: Option<Layout>,
    /// The first that both have unless given.
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

impl RatioQuery {
    /// The filter of the problems.
    pub fn filter(&self) -> ProblemFilter {
        let Self { op, dtype, b_layout, method, min_m, max_m, min_n, max_n, min_k, max_k, .. } = *self;
        ProblemFilter { op, dtype, b_layout, method, min_m, max_m, min_n, max_n, min_k, max_k }
    }
}

fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    /// A page can show this many at once.
    const MAX: u32 = 500;
    whole_number(deserializer, 1..=MAX)
}

/// Two times count as the same if they differ by at most this many per cent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise(f64);

impl Noise {
    const MAX_PERCENT: f64 = 50.0;

    /// The noise as a share, not in per cent.
    pub fn share(self) -> f64 {
        self.0 / 100.0
    }
}

impl Default for Noise {
    /// About as much as the times of one config on one device differ from day to day.
    fn default() -> Self {
        Self(2.0)
    }
}

impl std::str::FromStr for Noise {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let percent = text.parse().ok().filter(|percent| (0.0..=Self::MAX_PERCENT).contains(percent));
        let expected = "per cent from 0 to 50, such as 2";
        percent.map(Self).ok_or_else(|| Invalid::new("noise", format_args!("`{text}`"), expected))
    }
}

/// How the times of `b` compare with those of `a`, problem by problem.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ratios {
    /// Absent if there is none by which both measured.
    pub method: Option<Method>,
    /// Problems that both measured; of more than 5,000, an even sample is compared.
    pub problems: u64,
    pub only_a: u64,
    pub only_b: u64,
    /// Of the compared problems, those where `b` takes longer than the noise explains, where it takes less,
    /// and the others.
    pub slower: u64,
    pub faster: u64,
    pub same: u64,
    /// Geometric mean of time of `a` / time of `b`: above 1 where `b` is faster. Absent without problems.
    pub b_over_a: Option<f64>,
    /// Bins of equal width by the logarithm of the ratio, in order.
    pub histogram: Vec<RatioBin>,
    pub items: Vec<ComparedProblem>,
}

/// The problems whose ratio lies between two.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RatioBin {
    pub from: f64,
    pub to: f64,
    pub problems: u64,
}

/// One problem with both times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ComparedProblem {
    pub problem_id: ProblemId,
    pub problem: Problem,
    pub a: TimedConfig,
    pub b: TimedConfig,
    /// Time of `a` / time of `b`.
    pub b_over_a: f64,
}

/// A config and its measured time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TimedConfig {
    pub config: Config,
    pub us: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_per_cent() {
        assert_eq!("2.5".parse::<Noise>().map(Noise::share), Ok(0.025));
        for text in ["", "x", "-1", "51", "NaN"] {
            let refused = text.parse::<Noise>().unwrap_err().to_string();
            assert!(refused.contains("from 0 to 50"), "{refused}");
        }
    }
}
