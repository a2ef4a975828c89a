//! The result of a training of any kind of model.

use diode_model::AnyModel;
use diode_train::EpochLoss;

/// A trained model of any kind, and how its training went.
pub(crate) struct Trained {
    pub(crate) model: AnyModel,
    pub(crate) losses: Vec<EpochLoss>,
    pub(crate) stopped: bool,
}
