//! What a vendor's management library states about a GPU: clocks, heat, other processes.

mod amd_smi;
mod nvml;

use super::vendor::Vendor;
use amd_smi::AmdSmi;
use nvml::Nvml;

/// A vendor's management library, opened for one GPU.
pub(crate) enum Management {
    Nvml(Nvml),
    AmdSmi(AmdSmi),
}

/// The state of a GPU at a moment. A field is `None` if the library does not state it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) sm_mhz: Option<u32>,
    pub(crate) celsius: Option<u32>,
    pub(crate) throttled: Option<Throttled>,
}

/// Why clocks are lower than they could be. NVIDIA's library states the present reasons. AMD's
/// library states all reasons since it was last asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Throttled {
    /// Heat or the power supply: something is wrong with the node.
    pub(crate) by_trouble: bool,
    /// The power limit. Large multiplications always run at this limit.
    pub(crate) by_power_cap: bool,
}

/// What the library is asked once, at the start.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    pub(crate) driver: Option<String>,
    pub(crate) power_limit_mw: Option<u32>,
    pub(crate) default_power_limit_mw: Option<u32>,
    /// Whether the device is one of several parts of a GPU (MIG, or a compute partition other than
    /// SPX).
    pub(crate) divided: bool,
    /// How many other processes compute on the device.
    pub(crate) others: usize,
}

impl Management {
    /// `None` if the library is missing or does not know the GPU.
    pub(crate) fn open(vendor: Vendor, bus_id: &str) -> Option<Self> {
        match vendor {
            Vendor::Nvidia => Nvml::open(bus_id).map(Self::Nvml),
            Vendor::Amd => AmdSmi::open(bus_id).map(Self::AmdSmi),
        }
    }

    pub(crate) fn state(&self) -> State {
        match self {
            Self::Nvml(nvml) => nvml.state(),
            Self::AmdSmi(smi) => smi.state(),
        }
    }

    /// How many processes compute on the GPU. `None` if the library does not state it.
    pub(crate) fn processes(&self) -> Option<usize> {
        match self {
            Self::Nvml(nvml) => nvml.processes(),
            Self::AmdSmi(smi) => smi.processes(),
        }
    }

    pub(crate) fn settings(&self) -> Settings {
        match self {
            Self::Nvml(nvml) => nvml.settings(),
            Self::AmdSmi(smi) => smi.settings(),
        }
    }
}
