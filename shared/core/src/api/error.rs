use serde::{Deserialize, Serialize};

/// The body of every response that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApiError {
    /// A stable word for programs: `not_found`, `invalid`, `too_large`, …
    pub code: String,
    /// One sentence for people: what was given, what was expected, what to do.
    pub message: String,
}
