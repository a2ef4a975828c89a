//! What the driver refuses, and why there is none.

/// A call that the driver refused.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{call}: {name} ({code})")]
pub(crate) struct CudaError {
    pub(super) call: &'static str,
    pub(super) name: String,
    pub(super) code: i32,
}

impl CudaError {
    /// After these, the process can do nothing more on the GPU.
    pub(crate) fn is_sticky(&self) -> bool {
        matches!(self.code, 4 | 46 | 214 | 219 | 700 | 702 | 710 | 714..=721 | 999)
    }

    pub(crate) fn is_out_of_memory(&self) -> bool {
        self.code == 2
    }

    /// More registers, threads or shared memory than there are.
    pub(crate) fn is_out_of_resources(&self) -> bool {
        matches!(self.code, 1 | 701)
    }
}

pub(crate) type Result<T> = std::result::Result<T, CudaError>;

/// Why a node has no usable driver.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoDriver {
    #[error("no NVIDIA driver on this node; install it, or use --backend cpu")]
    Missing(#[source] libloading::Error),
    #[error("the NVIDIA driver lacks a function that diode calls; install a newer one, or use --backend cpu")]
    TooOld(#[source] libloading::Error),
    #[error(
        "the NVIDIA driver finds no GPU; see whether CUDA_VISIBLE_DEVICES hides it, or use --backend cpu"
    )]
    NoGpu,
    #[error("the NVIDIA driver does not work")]
    Broken(#[source] CudaError),
}

impl From<CudaError> for NoDriver {
    fn from(error: CudaError) -> Self {
        const NO_DEVICE: i32 = 100;
        if error.code == NO_DEVICE { Self::NoGpu } else { Self::Broken(error) }
    }
}
