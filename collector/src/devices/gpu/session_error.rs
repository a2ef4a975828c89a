//! Why measuring ends.

use diode_formats::FormatError;

use super::driver::DriverError;
use super::library::LibraryError;
use super::protocol::Cause;

/// Why measuring cannot go on in this process.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error(transparent)]
    Driver(#[from] DriverError),
    #[error(transparent)]
    Library(#[from] LibraryError),
    #[error(transparent)]
    Pack(FormatError),
    /// The pack is undamaged, but it was not built for this kind of problem.
    #[error("{0}")]
    Lacking(String),
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

impl SessionError {
    pub(super) fn cause(&self) -> Cause {
        match self {
            Self::Driver(error) | Self::Library(LibraryError::Driver(error)) if error.is_out_of_memory() => {
                Cause::Memory
            }
            Self::Pack(_) => Cause::Pack,
            _ => Cause::Gpu,
        }
    }
}
