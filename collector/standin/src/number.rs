//! The elements of matrices.

use std::sync::LazyLock;

use half::{bf16, f16};

/// The type in which an element is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    Half,
    BFloat,
    Single,
    Double,
    /// `float8_e4m3fn`.
    Fp8,
    /// `float8_e4m3fnuz`.
    Fnuz,
    Byte,
}

impl Number {
    pub(crate) fn size(self) -> u64 {
        match self {
            Self::Fp8 | Self::Fnuz | Self::Byte => 1,
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
            Self::Fp8 => fp8(bytes[at], 7),
            Self::Fnuz => fp8(bytes[at], 8),
            Self::Byte => f64::from(bytes[at] as i8),
        }
    }

    pub(crate) fn write(self, bytes: &mut [u8], element: u64, value: f64) {
        let at = (element * self.size()) as usize;
        match self {
            Self::Half => bytes[at..at + 2].copy_from_slice(&f16::from_f64(value).to_le_bytes()),
            Self::BFloat => bytes[at..at + 2].copy_from_slice(&bf16::from_f64(value).to_le_bytes()),
            Self::Single => bytes[at..at + 4].copy_from_slice(&(value as f32).to_le_bytes()),
            Self::Double => bytes[at..at + 8].copy_from_slice(&value.to_le_bytes()),
            Self::Fp8 => bytes[at] = nearest_fp8(value, 7),
            Self::Fnuz => bytes[at] = nearest_fp8(value, 8),
            Self::Byte => bytes[at] = value as i8 as u8,
        }
    }
}

/// A number of four bits of exponent and three of mantissa.
fn fp8(byte: u8, bias: i32) -> f64 {
    let (exponent, mantissa) = (i32::from(byte >> 3 & 15), f64::from(byte & 7));
    let not_a_number = if bias == 7 { byte & 0x7f == 0x7f } else { byte == 0x80 };
    let size = match exponent {
        _ if not_a_number => f64::NAN,
        0 => mantissa / 8.0 * 2_f64.powi(1 - bias),
        _ => (1.0 + mantissa / 8.0) * 2_f64.powi(exponent - bias),
    };
    if byte & 0x80 == 0 { size } else { -size }
}

fn nearest_fp8(value: f64, bias: i32) -> u8 {
    /// The numbers of the bytes from 0 on, which ascend, of both types.
    static NUMBERS: LazyLock<[Vec<f64>; 2]> = LazyLock::new(|| {
        [(7, 0x7e), (8, 0x7f)].map(|(bias, last)| (0..=last).map(|byte| fp8(byte, bias)).collect())
    });
    let (numbers, size) = (&NUMBERS[usize::from(bias == 8)], value.abs());
    let above = numbers.partition_point(|number| *number < size).clamp(1, numbers.len() - 1);
    let is_above = numbers[above] - size < size - numbers[above - 1];
    let nearest = (above - usize::from(!is_above)) as u8;
    if value < 0.0 && nearest > 0 { nearest | 0x80 } else { nearest }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bits_are_read_back_and_the_nearest_is_written() {
        for (number, one, largest) in [(Number::Fp8, 0x38, 448.0), (Number::Fnuz, 0x40, 240.0)] {
            let written = |value| {
                let mut bytes = [0];
                number.write(&mut bytes, 0, value);
                (bytes[0], number.read(&bytes, 0))
            };
            assert_eq!(written(1.0), (one, 1.0));
            assert_eq!(written(-1.07), (one | 0x81, -1.125));
            assert_eq!((written(0.0), written(1e6).1), ((0, 0.0), largest));
        }
    }
}
