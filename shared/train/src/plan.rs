//! What a training shall do.

use crate::TrainOptions;

/// What a training shall do.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub options: TrainOptions,
    /// The number of folds for cross-validation. With 0 there is none, and the model has no
    /// figures.
    pub folds: usize,
    /// When the model is made, as RFC 3339.
    pub created_at: String,
    /// Whether a stopped training returns the best model so far.
    pub keep_when_stopped: bool,
}
