//! Measures on GPUs through the driver alone, without CUDA's or ROCm's toolkit. Kernels come from a pack, and
//! times from the driver's events. The `meter` is the parent's side; the `worker` and what it calls run in the measuring
//! process.
//!
//! NVIDIA's and AMD's GPUs need different code mainly in [`driver`] (CUDA, HIP), [`library`] (cuBLAS,
//! hipBLASLt) and [`management`] (NVML, AMD SMI).

mod driver;
mod library;
mod management;
mod meter;
mod operands;
mod procedure;
mod routing;
mod session;
mod timing;
mod torch;
mod worker;

pub(crate) use crate::devices::gpu::driver::{Driver, NoDriver};
pub(crate) use crate::devices::gpu::meter::{GpuMeter, GpuOptions, TORCH};
pub(crate) use crate::devices::gpu::operands::most_operand_bytes;
pub(crate) use crate::devices::gpu::worker::MeasureGpu;

/// The vendors whose GPUs can launch kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GpuVendor {
    Nvidia,
    Amd,
}

impl GpuVendor {
    /// The vendor of the GPUs with this architecture.
    pub(crate) fn of_arch(arch: &str) -> Self {
        if arch.starts_with("gfx") { Self::Amd } else { Self::Nvidia }
    }

    /// The backend's name on the command line and in the provenance.
    pub(crate) fn backend(self) -> &'static str {
        match self {
            Self::Nvidia => "cuda",
            Self::Amd => "hip",
        }
    }

    /// The vendor of a backend, the inverse of [`Self::backend`].
    pub(crate) fn of_backend(name: &str) -> Result<Self, String> {
        let named = [Self::Nvidia, Self::Amd].into_iter().find(|vendor| vendor.backend() == name);
        named.ok_or_else(|| "expected cuda or hip".to_owned())
    }

    /// The vendor's driver, in words that say what to install.
    fn driver(self) -> &'static str {
        match self {
            Self::Nvidia => "NVIDIA driver",
            Self::Amd => "AMD driver (ROCm's HIP library)",
        }
    }

    /// What may hide GPUs from a process, in words for a message.
    fn hiding(self) -> &'static str {
        match self {
            Self::Nvidia => "CUDA_VISIBLE_DEVICES hides",
            Self::Amd => "HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES hide",
        }
    }

    /// The command that shows the state of a GPU.
    fn tool(self) -> &'static str {
        match self {
            Self::Nvidia => "nvidia-smi",
            Self::Amd => "amd-smi",
        }
    }

    /// The key in the provenance under which the version of cuBLAS or hipBLASLt stands.
    pub(crate) fn library_fact(self) -> &'static str {
        match self {
            Self::Nvidia => "cublas",
            Self::Amd => "hipblaslt",
        }
    }
}
