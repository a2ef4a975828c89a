//! The outcomes of a problem's configs.

use diode_core::{Config, FailureReason};

use super::samples::Samples;

/// The times or the failure of every config of a problem.
#[derive(Debug, Default)]
pub(crate) struct MeasuredConfigs {
    pub(crate) timed: Vec<(Config, Samples)>,
    pub(crate) failed: Vec<(Config, FailureReason)>,
}

impl MeasuredConfigs {
    /// The same failure for every config.
    pub(crate) fn all_failed(configs: &[Config], reason: FailureReason) -> Self {
        Self { timed: Vec::new(), failed: configs.iter().map(|config| (*config, reason)).collect() }
    }

    /// The shortest median time so far.
    pub(crate) fn best(&self) -> Option<u64> {
        self.timed.iter().filter_map(|(_, samples)| samples.median()).min()
    }
}
