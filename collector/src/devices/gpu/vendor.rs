//! Who makes a GPU, and what that changes outside of the driver.

/// The makers of GPUs that kernels are launched on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vendor {
    Nvidia,
    Amd,
}

impl Vendor {
    /// Whose GPUs a pack for this architecture is for.
    pub(crate) fn of_arch(arch: &str) -> Self {
        if arch.starts_with("gfx") { Self::Amd } else { Self::Nvidia }
    }

    /// The backend, as the command line and the provenance name it.
    pub(crate) fn backend(self) -> &'static str {
        match self {
            Self::Nvidia => "cuda",
            Self::Amd => "hip",
        }
    }

    /// The opposite of [`Self::backend`].
    pub(crate) fn of_backend(name: &str) -> Result<Self, String> {
        let named = [Self::Nvidia, Self::Amd].into_iter().find(|vendor| vendor.backend() == name);
        named.ok_or_else(|| "expected cuda or hip".to_owned())
    }

    /// What a node without it is told to install.
    pub(super) fn driver(self) -> &'static str {
        match self {
            Self::Nvidia => "NVIDIA driver",
            Self::Amd => "AMD driver (ROCm's HIP library)",
        }
    }

    /// What may hide GPUs from a process.
    pub(super) fn hiding(self) -> &'static str {
        match self {
            Self::Nvidia => "CUDA_VISIBLE_DEVICES hides",
            Self::Amd => "HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES hide",
        }
    }

    /// The command that shows how a GPU is.
    pub(super) fn tool(self) -> &'static str {
        match self {
            Self::Nvidia => "nvidia-smi",
            Self::Amd => "amd-smi",
        }
    }

    /// The fact that states the version of the vendor's multiplications, if they are there.
    pub(crate) fn library_fact(self) -> &'static str {
        match self {
            Self::Nvidia => "cublas",
            Self::Amd => "hipblaslt",
        }
    }
}
