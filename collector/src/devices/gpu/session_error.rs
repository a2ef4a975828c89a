//! Why measuring ends.

use diode_formats::FormatError;

use super::cuda::cublas::CublasError;
use super::cuda::driver::CudaError;
use super::protocol::Cause;

/// Why measuring cannot go on in this process.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error(transparent)]
    Cuda(#[from] CudaError),
    #[error(transparent)]
    Cublas(#[from] CublasError),
    #[error(transparent)]
    Pack(FormatError),
    /// The pack is whole, but not for problems of this kind.
    #[error("{0}")]
    Lacking(String),
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

impl SessionError {
    pub(super) fn cause(&self) -> Cause {
        match self {
            Self::Cuda(error) | Self::Cublas(CublasError::Driver(error)) if error.is_out_of_memory() => {
                Cause::Memory
            }
            Self::Pack(_) => Cause::Pack,
            _ => Cause::Gpu,
        }
    }
}
