//! Why a model cannot be trained or judged.

use diode_core::ids::HardwareSlug;
use diode_core::{Invalid, Method};
use diode_model::ModelError;

use crate::set::LeftOut;

/// Why a model cannot be trained or judged.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    // The data
    #[error(
        "training data: got no usable timing, expected at least one of a tiled Triton kernel ({left_out})"
    )]
    Empty { left_out: LeftOut },

    #[error(
        "training data: got timings of {first} and of {other}, expected one kind of hardware; train one model for each"
    )]
    MixedHardware { first: HardwareSlug, other: HardwareSlug },

    #[error(
        "related data: got timings of {hardware}, expected other hardware than that of the training data"
    )]
    RelatedIsTheSame { hardware: HardwareSlug },

    #[error("training data: nothing was taken as {wanted}; there are timings taken as {found}")]
    NoSuchMethod { wanted: Method, found: String },

    #[error(
        "hardware {hardware} has no facts (SMs, bandwidth, peaks), which the features need; add them to the dataset"
    )]
    NoFacts { hardware: HardwareSlug },

    #[error(
        "training data: got {problems} problems, all of sizes that are kept for judging, expected others; \
         collect more problems"
    )]
    OnlyKept { problems: usize },

    #[error(
        "different problem sizes to cross-validate with: got {problems}, expected at least 2; collect more problems"
    )]
    TooFewProblems { problems: usize },

    #[error(
        "model and data: the model speaks of {model}, the data of {data}; evaluate on data of the same hardware, or judge it standing in with --as {data}"
    )]
    OtherHardware { model: HardwareSlug, data: HardwareSlug },

    // The work
    #[error("{0}")]
    Options(Invalid),

    #[error("training was stopped")]
    Stopped,

    #[error("training diverged in epoch {epoch}: the loss is not a number; use a lower learning rate")]
    Diverged { epoch: usize },

    // Below us
    #[error(transparent)]
    Data(#[from] Invalid),

    #[error(transparent)]
    Model(#[from] ModelError),

    #[error("checkpoint: not readable ({0}); delete it to begin anew")]
    Checkpoint(safetensors::SafeTensorError),

    #[error("checkpoint: it is of other data, options or another version of diode; delete it to begin anew")]
    OtherCheckpoint,

    #[error("checkpoint: it is damaged; delete it to begin anew")]
    DamagedCheckpoint,

    #[error("tensor arithmetic failed: {0}")]
    Tensor(#[from] candle_core::Error),
}

// The message contains its cause. As a source, the cause would be printed a second time.
impl From<safetensors::SafeTensorError> for TrainError {
    fn from(error: safetensors::SafeTensorError) -> Self {
        Self::Checkpoint(error)
    }
}
