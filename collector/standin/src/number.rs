//! The elements of matrices.

use half::{bf16, f16};

/// The type in which an element is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    Half,
    BFloat,
    Single,
    Double,
}

impl Number {
    pub(crate) fn size(self) -> u64 {
        match self {
            Self::Half | Self::BFloat => 2,
            Self::Single => 4,
            Self::Double => 8,
        }
    }

    /// The type in which elements of this type are added up.
    pub(crate) fn sum(self) -> Self {
        if self == Self::Single { Self::Double } else { Self::Single }
    }

    pub(crate) fn read(self, bytes: &[u8], element: u64) -> f64 {
        let at = (element * self.size()) as usize;
        match self {
            Self::Half => f16::from_le_bytes(array(bytes, at)).into(),
            Self::BFloat => bf16::from_le_bytes(array(bytes, at)).into(),
            Self::Single => f32::from_le_bytes(array(bytes, at)).into(),
            Self::Double => f64::from_le_bytes(array(bytes, at)),
        }
    }

    pub(crate) fn write(self, bytes: &mut [u8], element: u64, value: f64) {
        let at = (element * self.size()) as usize;
        match self {
            Self::Half => bytes[at..at + 2].copy_from_slice(&f16::from_f64(value).to_le_bytes()),
            Self::BFloat => bytes[at..at + 2].copy_from_slice(&bf16::from_f64(value).to_le_bytes()),
            Self::Single => bytes[at..at + 4].copy_from_slice(&(value as f32).to_le_bytes()),
            Self::Double => bytes[at..at + 8].copy_from_slice(&value.to_le_bytes()),
        }
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}
