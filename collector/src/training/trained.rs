//! What came of a training, whatever was trained.

use diode_model::AnyModel;
use diode_train::EpochLoss;

use crate::failure::Usage;
use crate::node;

/// What came of a training of any kind.
pub(crate) struct Trained {
    pub(crate) model: AnyModel,
    pub(crate) losses: Vec<EpochLoss>,
    pub(crate) stopped: bool,
}

/// The time that the model states: now, or for a file that is to come out the same again the
/// seconds since 1970 that reproducible builds pass in `SOURCE_DATE_EPOCH`.
pub(crate) fn created_at() -> anyhow::Result<String> {
    let Some(seconds) = std::env::var_os("SOURCE_DATE_EPOCH") else { return Ok(node::now()) };
    let seconds = seconds.to_string_lossy();
    let parsed = seconds.parse().ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    match parsed {
        Some(time) => Ok(time.to_string()),
        None => {
            Err(Usage::new(format!("SOURCE_DATE_EPOCH: got `{seconds}`, expected seconds since 1970")).into())
        }
    }
}
