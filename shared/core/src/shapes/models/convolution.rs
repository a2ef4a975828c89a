//! Convolutions as multiplications: every patch of the image is unrolled to a row.

use std::str::FromStr;

use super::linear;
use super::spec::{need, parse};
use crate::error::{Field, Invalid};
use crate::{DType, Problem};

const WHAT: &str = "convolution";

/// A two-dimensional convolution of square images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Convolution {
    in_channels: u64,
    out_channels: u64,
    kernel: u64,
    stride: u64,
    padding: u64,
    size: u64,
}

impl FromStr for Convolution {
    type Err = Invalid;

    /// Reads `in=64,out=128,kernel=3,size=56`. `stride` (by default 1) and `padding` (by default 0)
    /// may be added.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let names = ["in", "out", "kernel", "stride", "padding", "size"];
        let [in_channels, out_channels, kernel, stride, padding, size] = parse(WHAT, text, names)?;
        let convolution = Self {
            in_channels: need(WHAT, "in", in_channels)?,
            out_channels: need(WHAT, "out", out_channels)?,
            kernel: need(WHAT, "kernel", kernel)?,
            stride: need(WHAT, "stride", stride.or(Some(1)))?,
            padding: padding.unwrap_or(0),
            size: need(WHAT, "size", size)?,
        };
        let padded = convolution.padded();
        if convolution.kernel > padded {
            let expected = format!("at most {padded}, the size of the padded image");
            return Err(Invalid::new("kernel", convolution.kernel, expected).within(WHAT));
        }
        Ok(convolution)
    }
}

impl Convolution {
    /// The problem for this many images at once: a row per output pixel, a column per output
    /// channel.
    ///
    /// ```
    /// use diode_core::DType;
    /// use diode_core::shapes::Convolution;
    ///
    /// let first: Convolution = "in=3,out=64,kernel=7,stride=2,padding=3,size=224".parse()?;
    /// assert_eq!(first.problem(32, DType::Float16)?.dims(), "401408×64×147");
    /// # Ok::<(), diode_core::Invalid>(())
    /// ```
    pub fn problem(&self, images: u64, dtype: DType) -> Result<Problem, Invalid> {
        let side = (self.padded() - self.kernel) / self.stride + 1;
        // Sizes are at most 2^31. If a product saturates, `linear` refuses it as too large.
        let m = images.saturating_mul(side.saturating_mul(side));
        let k = self.in_channels.saturating_mul(self.kernel.saturating_mul(self.kernel));
        linear(m, self.out_channels, k, dtype).map_err(|mut invalid| {
            // Users describe a convolution without M, N and K, so the message explains the size.
            let meaning = match invalid.field() {
                Some(Field::M) => " (images × pixels of the output)",
                Some(Field::N) => " (out)",
                Some(Field::K) => " (in × kernel²)",
                _ => "",
            };
            invalid.subject = format!("{}{meaning}", invalid.subject).into();
            invalid.within(WHAT)
        })
    }

    fn padded(&self) -> u64 {
        self.size + 2 * self.padding
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_become_rows_and_patches_columns() {
        let dims = |spec: &str, images| {
            spec.parse::<Convolution>().unwrap().problem(images, DType::Float16).unwrap().dims()
        };
        assert_eq!(dims("in=64,out=64,kernel=1,size=56", 1), "3136×64×64");
        assert_eq!(dims("in=64,out=128,kernel=3,stride=2,padding=1,size=56", 8), "6272×128×576");
        assert_eq!(dims("in=16,out=8,kernel=5,size=5", 1), "1×8×400");
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        for (spec, words) in [
            ("in=64,out=64,size=56", "convolution: kernel: got none"),
            ("in=64,out=64,kernel=7,size=4,padding=1", "kernel: got 7, expected at most 6"),
            ("in=64,out=64,kernel=3,size=8,stride=0", "stride: got 0"),
        ] {
            let error = spec.parse::<Convolution>().unwrap_err().to_string();
            assert!(error.contains(words), "{spec}: {error}");
        }
        let huge: Convolution = "in=2147483648,out=1,kernel=2147483648,size=2147483648".parse().unwrap();
        let error = huge.problem(1, DType::Float16).unwrap_err().to_string();
        assert!(
            error.starts_with("convolution: K (in × kernel²): got 18446744073709551615, expected"),
            "{error}"
        );
    }
}
