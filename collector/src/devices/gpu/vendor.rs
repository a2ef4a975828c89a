//! The vendor of a GPU, and what depends on the vendor outside of the driver.

/// The vendors whose GPUs can launch kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vendor {
    Nvidia,
    Amd,
}

impl Vendor {
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
    pub(super) fn driver(self) -> &'static str {
        match self {
            Self::Nvidia => "NVIDIA driver",
            Self::Amd => "AMD driver (ROCm's HIP library)",
        }
    }

    /// What may hide GPUs from a process, in words for a message.
    pub(super) fn hiding(self) -> &'static str {
        match self {
            Self::Nvidia => "CUDA_VISIBLE_DEVICES hides",
            Self::Amd => "HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES hide",
        }
    }

    /// The command that shows the state of a GPU.
    pub(super) fn tool(self) -> &'static str {
        match self {
            Self::Nvidia => "nvidia-smi",
            Self::Amd => "amd-smi",
        }
    }

    /// The fact that states the version of the vendor's multiplications, where they were found.
    pub(crate) fn library_fact(self) -> &'static str {
        match self {
            Self::Nvidia => "cublas",
            Self::Amd => "hipblaslt",
        }
    }
}
