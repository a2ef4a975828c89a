//! What every device does: times the configs of a problem.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::bail;
use diode_core::{Config, Method, Problem};

use super::measured::MeasuredConfigs;

/// One device, with a measuring process of its own.
pub(crate) trait Meter: Send {
    /// How its times are taken.
    fn method(&self) -> Method;

    /// Uses these kernel packs from now on, in place of others. Returns the node's facts with them.
    fn use_packs(
        &mut self,
        _packs: &[PathBuf],
        _abandon: &dyn Fn() -> bool,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        bail!("this device launches no kernels from packs")
    }

    /// What goes on around the device between two problems.
    fn surroundings(&self) -> Surroundings {
        Surroundings::default()
    }

    /// Holds nothing of the device until the next problem.
    fn let_go(&mut self) {}

    /// Takes the device again after that; gives up when `abandon` is true.
    fn take_again(&mut self, _abandon: &dyn Fn() -> bool) -> anyhow::Result<()> {
        Ok(())
    }

    /// Times configs on a problem; gives up when `abandon` is true.
    fn measure(
        &mut self,
        problem: &Problem,
        configs: &[Config],
        abandon: &dyn Fn() -> bool,
    ) -> anyhow::Result<Outcome>;
}

/// The device does not take up work again. It may later, as after a reset of its driver.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotReady(pub(crate) String);

/// What may keep from measuring; `None` where the device does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Surroundings {
    /// Processes besides ours that compute on it.
    pub(crate) others: Option<usize>,
    pub(crate) celsius: Option<u32>,
    /// Heat or the power supply holds its clocks down.
    pub(crate) slowed: bool,
}

/// What became of a problem.
pub(crate) enum Outcome {
    Measured {
        measured: MeasuredConfigs,
        quality: Quality,
    },
    /// This device or its kernels cannot compute it.
    Refused(String),
    Abandoned,
}

/// How well a device could measure.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Quality {
    /// The best configs had to be measured again, and still disagreed the last time.
    pub(crate) disturbed: bool,
    /// Nanoseconds that a GPU spent in kernels, and in all.
    pub(crate) busy_ns: u64,
    pub(crate) wall_ns: u64,
    /// Launches that were timed again, since the GPU may have waited for them.
    pub(crate) late: u32,
    /// The power limit held the clocks down.
    pub(crate) power_capped: bool,
}
