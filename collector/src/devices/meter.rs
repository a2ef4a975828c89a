//! The interface that every device has: it times the configs of a problem.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::bail;
use diode_core::{Config, Method, Problem};

use super::measured::MeasuredConfigs;

/// One device, with a measuring process of its own.
pub(crate) trait Meter: Send {
    /// The method by which the device takes times.
    fn method(&self) -> Method;

    /// Makes the device use these kernel packs only. Returns the node's facts with the new packs.
    fn use_packs(
        &mut self,
        _packs: &[PathBuf],
        _abandon: &dyn Fn() -> bool,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        bail!("this device launches no kernels from packs")
    }

    /// What may keep the device from measuring, read between two problems.
    fn surroundings(&self) -> Surroundings {
        Surroundings::default()
    }

    /// Releases the device until the next problem.
    fn let_go(&mut self) {}

    /// Takes the device again after [`Self::let_go`] or a failure. Gives up once `abandon` is true.
    fn take_again(&mut self, _abandon: &dyn Fn() -> bool) -> anyhow::Result<()> {
        Ok(())
    }

    /// Times configs on a problem. Gives up once `abandon` is true.
    fn measure(
        &mut self,
        problem: &Problem,
        configs: &[Config],
        abandon: &dyn Fn() -> bool,
    ) -> anyhow::Result<Outcome>;
}

/// The device cannot take up work again now. It may later, for example after a reset of its driver.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotReady(pub(crate) String);

/// What may keep a device from measuring. `None` if the device does not state it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Surroundings {
    /// How many other processes compute on the device.
    pub(crate) others: Option<usize>,
    pub(crate) celsius: Option<u32>,
    /// Whether heat or the power supply holds the device's clocks down.
    pub(crate) slowed: bool,
}

/// The outcome of a problem.
pub(crate) enum Outcome {
    Measured {
        measured: MeasuredConfigs,
        quality: Quality,
    },
    /// This device or its kernels cannot compute the problem.
    Refused(String),
    Abandoned,
}

/// How well the device could measure a problem.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Quality {
    /// Whether the best configs had to be measured again and still disagreed the last time.
    pub(crate) disturbed: bool,
    /// Nanoseconds that the GPU spent in kernels (`busy_ns`), and that measuring took in all
    /// (`wall_ns`).
    pub(crate) busy_ns: u64,
    pub(crate) wall_ns: u64,
    /// How often a launch may have come too late and kept the GPU waiting. Such a launch is timed
    /// again, a few times at most.
    pub(crate) late: u32,
    /// Whether the power limit held the clocks down.
    pub(crate) power_capped: bool,
}
