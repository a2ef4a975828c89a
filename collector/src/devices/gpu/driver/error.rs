//! The errors of a driver's calls, and the reasons why no driver is usable.

use crate::devices::gpu::vendor::Vendor;

/// A call that the driver refused. Both vendors use the same codes.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{call}: {name} ({code})")]
pub(crate) struct DriverError {
    pub(super) call: &'static str,
    pub(super) name: String,
    pub(super) code: i32,
}

impl DriverError {
    /// Whether the process can do nothing more on the GPU after this error.
    pub(crate) fn is_sticky(&self) -> bool {
        matches!(self.code, 4 | 46 | 214 | 219 | 700 | 702 | 710 | 714..=721 | 999)
    }

    pub(crate) fn is_out_of_memory(&self) -> bool {
        self.code == 2
    }

    /// Whether a kernel needs more registers, threads or shared memory than the GPU has.
    pub(crate) fn is_out_of_resources(&self) -> bool {
        matches!(self.code, 1 | 701)
    }
}

pub(crate) type Result<T> = std::result::Result<T, DriverError>;

/// Why a node has no usable driver.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoDriver {
    #[error("no {} on this node; install it, or use --backend cpu", .0.driver())]
    Missing(Vendor, #[source] libloading::Error),
    #[error("the {} lacks a function that diode calls; install a newer one, or use --backend cpu", .0.driver())]
    TooOld(Vendor, #[source] libloading::Error),
    #[error("the {} finds no GPU; see whether {} it, or use --backend cpu", .0.driver(), .0.hiding())]
    NoGpu(Vendor),
    /// The node has no GPU with this number. A GPU with this number may have been lost.
    #[error("device {device}: this node has {count}, counted from 0")]
    Fewer { device: u32, count: u32 },
    #[error("the {} does not work", .0.driver())]
    Broken(Vendor, #[source] DriverError),
}

impl NoDriver {
    /// Whether the cause may pass by itself, such as an update of the driver or a reset of the GPU.
    pub(crate) fn may_pass(&self) -> bool {
        !matches!(self, Self::TooOld(..))
    }

    pub(super) fn because(vendor: Vendor, error: DriverError) -> Self {
        const NO_DEVICE: i32 = 100;
        if error.code == NO_DEVICE { Self::NoGpu(vendor) } else { Self::Broken(vendor, error) }
    }
}
