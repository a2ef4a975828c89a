use serde::{Deserialize, Deserializer};

use super::query::{from_text, whole_number};
use crate::{DType, Layout, Method, Op, Problem};

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
}

pub(super) fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    /// The largest integer of the type `int64`, which the API's description names.
    const MAX: u64 = i64::MAX as u64;
    whole_number(deserializer, 0..=MAX)
}

impl ProblemFilter {
    /// Whether a problem passes the filter. `method` is ignored, since a problem has none.
    pub fn admits(&self, problem: &Problem) -> bool {
        let Self { op, dtype, b_layout, method: _, min_m, max_m, min_n, max_n, min_k, max_k } = *self;
        let within = |size: u64, least: Option<u64>, most: Option<u64>| {
            least.is_none_or(|least| size >= least) && most.is_none_or(|most| size <= most)
        };
        op.is_none_or(|op| op == problem.op)
            && dtype.is_none_or(|dtype| dtype == problem.a_dtype)
            && b_layout.is_none_or(|layout| layout == problem.b_layout)
            && within(problem.m, min_m, max_m)
            && within(problem.n, min_n, max_n)
            && within(problem.k, min_k, max_k)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProblemFields;

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
    }
}
