//! The result of a training of any kind of model.

use diode_model::AnyModel;
use diode_train::{EpochLoss, FoldModel};

/// A trained model of any kind, and how its training went.
pub(crate) struct Trained {
    pub(crate) model: AnyModel,
    /// Those of the cross-validation; none without one, and none if the training was stopped.
    pub(crate) folds: Vec<FoldModel>,
    pub(crate) losses: Vec<EpochLoss>,
    pub(crate) stopped: bool,
}
