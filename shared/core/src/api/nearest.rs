use serde::{Deserialize, Deserializer, Serialize};

use super::KernelResult;
use super::query::{from_text, whole_number};
use crate::ids::ProblemId;
use crate::{DType, Field, Invalid, Layout, Method, Op, Problem, ProblemFields};

/// A shape to find measured problems like it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct NearestQuery {
    /// `mm` unless given.
    #[serde(deserialize_with = "from_text")]
    pub op: Option<Op>,
    /// 1 unless given.
    #[serde(deserialize_with = "size")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 2_147_483_648.0))]
    pub b: Option<u64>,
    #[serde(deserialize_with = "size")]
    #[cfg_attr(feature = "openapi", param(required = true, minimum = 1, maximum = 2_147_483_648.0))]
    pub m: Option<u64>,
    #[serde(deserialize_with = "size")]
    #[cfg_attr(feature = "openapi", param(required = true, minimum = 1, maximum = 2_147_483_648.0))]
    pub n: Option<u64>,
    #[serde(deserialize_with = "size")]
    #[cfg_attr(feature = "openapi", param(required = true, minimum = 1, maximum = 2_147_483_648.0))]
    pub k: Option<u64>,
    /// `bfloat16` unless given.
    #[serde(deserialize_with = "from_text")]
    pub dtype: Option<DType>,
    /// `row` unless given.
    #[serde(deserialize_with = "from_text")]
    pub a_layout: Option<Layout>,
    /// `row` unless given; `column` is what `nn.Linear` gives.
    #[serde(deserialize_with = "from_text")]
    pub b_layout: Option<Layout>,
    /// The method that the hardware's figures are of unless given.
    #[serde(deserialize_with = "from_text")]
    pub method: Option<Method>,
    /// 1 to 20; 5 unless given.
    #[serde(deserialize_with = "limit")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 20))]
    pub limit: Option<u32>,
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    whole_number(deserializer, 1..=Problem::MAX_DIM)
}

fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    /// Every problem costs the database a look-up.
    const MAX: u32 = 20;
    whole_number(deserializer, 1..=MAX)
}

impl NearestQuery {
    /// The problem with these sizes and types.
    pub fn problem(&self) -> Result<Problem, Invalid> {
        let given = |field: Field, size: Option<u64>| {
            size.ok_or_else(|| {
                Invalid::new(field, "nothing", format!("a size from 1 to {}", Problem::MAX_DIM))
            })
        };
        let (m, n, k) = (given(Field::M, self.m)?, given(Field::N, self.n)?, given(Field::K, self.k)?);
        let (op, dtype) = (self.op.unwrap_or(Op::Mm), self.dtype.unwrap_or(DType::BFloat16));
        Problem::new(ProblemFields {
            a_layout: self.a_layout.unwrap_or(Layout::Row),
            b_layout: self.b_layout.unwrap_or(Layout::Row),
            ..ProblemFields::plain(op, self.b.unwrap_or(1), m, n, k, dtype)
        })
    }
}

/// A measured problem like the one that was asked about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NearestProblem {
    pub problem_id: ProblemId,
    pub problem: Problem,
    pub method: Method,
    /// How differently the two are expected to behave: 0 for the same, 1 for one size doubled.
    pub distance: f64,
    /// The best Triton config.
    pub triton: Option<KernelResult>,
    /// The library kernel.
    pub library: Option<KernelResult>,
    /// As in a leaderboard's row.
    pub triton_over_library: Option<f64>,
}
