//! What a training is to do.

use crate::TrainOptions;

/// What a training is to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub options: TrainOptions,
    /// Parts for cross-validation; 0 for none, and a model that does not say how good it is.
    pub folds: usize,
    /// When the model is made, as RFC 3339.
    pub created_at: String,
    /// Whether a stopped training gives the best model so far.
    pub keep_when_stopped: bool,
}
