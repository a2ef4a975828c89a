//! What a vendor's management library says of a GPU: clocks, heat, other processes.

mod amd_smi;
mod nvml;

use super::vendor::Vendor;
use amd_smi::AmdSmi;
use nvml::Nvml;

/// A vendor's library, and one GPU of it.
pub(crate) enum Management {
    Nvml(Nvml),
    AmdSmi(AmdSmi),
}

/// The state of a GPU at a moment; `None` where the library does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) sm_mhz: Option<u32>,
    pub(crate) celsius: Option<u32>,
    pub(crate) throttled: Option<Throttled>,
}

/// Why clocks are lower than asked for: now (NVIDIA), or at some time since the last question (AMD).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Throttled {
    /// Something is wrong with the node: heat, or the power supply.
    pub(crate) by_trouble: bool,
    /// The power limit, which is how large multiplications always run.
    pub(crate) by_power_cap: bool,
}

/// What a node is asked once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    pub(crate) driver: Option<String>,
    pub(crate) power_limit_mw: Option<u32>,
    pub(crate) default_power_limit_mw: Option<u32>,
    /// It is one of several parts of a GPU (MIG, or another compute partition than SPX).
    pub(crate) divided: bool,
    /// Other processes that compute on it.
    pub(crate) others: usize,
}

impl Management {
    /// `None` where the library is missing or does not know the GPU.
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

    /// How many processes compute on it; `None` where the library does not say.
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
