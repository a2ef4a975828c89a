use serde::{Deserialize, Deserializer};

use super::query::{from_text, whole_number};
use crate::{DType, Layout, Method, Op};

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
    whole_number(deserializer, 0..=u64::MAX)
}
