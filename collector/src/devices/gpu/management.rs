//! What NVML or AMD SMI states about a GPU: clocks, heat, other processes.

mod amd_smi;

use std::ffi::OsStr;

use nvml_wrapper::Device;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;

use crate::devices::gpu::GpuVendor;
use crate::devices::gpu::management::amd_smi::AmdSmi;

/// NVML or AMD SMI, opened for one GPU.
pub(crate) trait Management: Send {
    fn state(&self) -> State;

    /// How many processes compute on the GPU, if stated.
    fn processes(&self) -> Option<usize>;

    fn settings(&self) -> Settings;
}

/// `None` if NVML or AMD SMI is missing or does not know the GPU.
pub(crate) fn open(vendor: GpuVendor, bus_id: &str) -> Option<Box<dyn Management>> {
    match vendor {
        GpuVendor::Nvidia => Some(Box::new(Nvml::open(bus_id)?)),
        GpuVendor::Amd => Some(Box::new(AmdSmi::open(bus_id)?)),
    }
}

/// The state of a GPU at a moment. A field is `None` if it is not stated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) celsius: Option<u32>,
    pub(crate) throttled: Option<Throttled>,
}

/// Why clocks are lower than they could be. NVML states the present reasons, AMD SMI all reasons since it was
/// last asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Throttled {
    /// Heat or the power supply: something is wrong with the node.
    pub(crate) by_fault: bool,
    /// The power limit. Large multiplications always run at this limit.
    pub(crate) by_power_cap: bool,
}

/// What is asked once, at the start.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    pub(crate) driver: Option<String>,
    pub(crate) power_limit_mw: Option<u32>,
    pub(crate) default_power_limit_mw: Option<u32>,
    /// Whether the device is one of several parts of a GPU (MIG, or a compute partition other than
    /// SPX).
    pub(crate) partitioned: bool,
    /// How many other processes compute on the device.
    pub(crate) others: usize,
}

/// The name under which the driver installs NVML. `nvml_wrapper` would look for the name in a development
/// package.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// NVML, opened for one GPU.
pub(crate) struct Nvml {
    library: &'static nvml_wrapper::Nvml,
    device: Device<'static>,
}

impl From<ThrottleReasons> for Throttled {
    fn from(reasons: ThrottleReasons) -> Self {
        let faults = ThrottleReasons::HW_SLOWDOWN
            | ThrottleReasons::SW_THERMAL_SLOWDOWN
            | ThrottleReasons::HW_THERMAL_SLOWDOWN
            | ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN;
        Self {
            by_fault: reasons.intersects(faults),
            by_power_cap: reasons.contains(ThrottleReasons::SW_POWER_CAP),
        }
    }
}

impl Nvml {
    /// `None` if NVML is missing or does not know the GPU.
    fn open(bus_id: &str) -> Option<Self> {
        let library = nvml_wrapper::Nvml::builder().lib_path(OsStr::new(LIBRARY)).init().ok()?;
        // Leaked, because the process measures on one GPU until it ends.
        let library: &'static nvml_wrapper::Nvml = Box::leak(Box::new(library));
        let device = library.device_by_pci_bus_id(bus_id).ok()?;
        Some(Self { library, device })
    }
}

impl Management for Nvml {
    fn state(&self) -> State {
        State {
            celsius: self.device.temperature(TemperatureSensor::Gpu).ok(),
            throttled: self.device.current_throttle_reasons().ok().map(Throttled::from),
        }
    }

    fn settings(&self) -> Settings {
        Settings {
            driver: self.library.sys_driver_version().ok(),
            power_limit_mw: self.device.power_management_limit().ok(),
            default_power_limit_mw: self.device.power_management_limit_default().ok(),
            partitioned: self.device.mig_mode().is_ok_and(|mode| mode.current == 1),
            // The count includes this process.
            others: self.processes().map_or(0, |processes| processes.saturating_sub(1)),
        }
    }

    /// How many processes compute on the GPU. Their ids are not compared with this process's own: in a
    /// container, NVML gives the host's ids.
    fn processes(&self) -> Option<usize> {
        Some(self.device.running_compute_processes().ok()?.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_power_limit_alone_is_no_fault() {
        let capped = Throttled::from(ThrottleReasons::SW_POWER_CAP | ThrottleReasons::GPU_IDLE);
        assert_eq!(capped, Throttled { by_fault: false, by_power_cap: true });
        for bits in [0x8, 0x20, 0x40, 0x80] {
            let hot = Throttled::from(ThrottleReasons::from_bits_truncate(bits));
            assert_eq!(hot, Throttled { by_fault: true, by_power_cap: false }, "{bits:#x}");
        }
    }

    #[test]
    fn a_gpu_that_is_not_there_says_nothing() {
        assert!(Nvml::open("0000:ff:1f.7").is_none());
    }
}
