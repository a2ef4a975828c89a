//! What a kernel computes and what it may assume, read from its name in the pack.

use std::collections::HashMap;
use std::path::Path;

use diode_core::ids::Digest;
use diode_formats::pack::{Outcome, Pack};

use crate::code_object;
use crate::number::Number;

/// A kernel of the pack.
#[derive(Debug, Clone)]
pub(crate) struct Kernel {
    pub(crate) key: String,
    pub(crate) symbol: String,
    pub(crate) threads: u32,
    pub(crate) shared: u32,
    pub(crate) work: Computation,
    /// The offsets and sizes of its arguments, if the binary states them. Binaries for AMD GPUs do.
    pub(crate) arguments: Option<Vec<[u64; 2]>>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Computation {
    Multiply(Multiply),
    Fill(Number),
    Reference { number: Number, bias: bool },
    Compare(Number),
}

/// A multiplication, with everything that its code assumes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Multiply {
    pub(crate) number: Number,
    pub(crate) batched: bool,
    /// Whether A and B are row-major.
    pub(crate) rows: [bool; 2],
    pub(crate) bias: Bias,
    /// The divisor of the distance between rows of A, B and the output, in elements.
    pub(crate) divisors: [u64; 3],
    pub(crate) block: [u64; 3],
    pub(crate) even_k: bool,
    /// Whether the tile fits into the matrices, where that matters.
    pub(crate) fits: bool,
    pub(crate) sizes: Option<[u64; 3]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bias {
    None,
    Vector,
    Matrix,
}

/// All kernels of a pack, by the digest of their binaries.
pub(crate) fn kernels_of(path: &Path) -> Result<HashMap<Digest, Kernel>, String> {
    let mut pack = Pack::open(path).map_err(|error| error.to_string())?;
    let mut kernels = HashMap::new();
    for record in pack.records().to_vec() {
        let Outcome::Built(built) = &record.outcome else { continue };
        let binary = pack.binary(built).map_err(|error| error.to_string())?;
        let key = record.key.clone();
        let work =
            Computation::parse(&key).ok_or_else(|| format!("the stand-in does not know the kernel {key}"))?;
        let (symbol, threads, shared) = (built.symbol.clone(), built.threads, built.shared);
        let arguments = code_object::arguments(&binary, &symbol);
        // If two kernels have the same binary, either of them describes it.
        let kernel = Kernel { key, symbol, threads, shared, work, arguments };
        kernels.entry(Digest::of(&binary)).or_insert(kernel);
    }
    Ok(kernels)
}

impl Computation {
    /// The sizes of the arguments that a launch passes. Triton's own two pointers come last.
    pub(crate) fn sizes(&self) -> Vec<u64> {
        let parts: &[(u64, usize)] = match self {
            Self::Multiply(_) => &[(8, 4), (4, 9)],
            Self::Fill(_) => &[(8, 2), (4, 1)],
            Self::Reference { .. } => &[(8, 4), (4, 3), (8, 9)],
            Self::Compare(_) => &[(8, 4), (4, 2)],
        };
        parts.iter().chain(&[(8, 2)]).flat_map(|&(size, count)| vec![size; count]).collect()
    }

    fn parse(key: &str) -> Option<Self> {
        let mut fields = key.split(';');
        let kernel = fields.next()?;
        let number = match fields.next()? {
            "float16" => Number::Half,
            "bfloat16" => Number::BFloat,
            "float32" => Number::Single,
            _ => return None,
        };
        Some(match kernel {
            "fill" => Self::Fill(number),
            "compare" => Self::Compare(number),
            "reference" => Self::Reference { number, bias: fields.next()? == "bias=true" },
            "mm" | "bmm" => Self::Multiply(Multiply::parse(kernel == "bmm", number, fields)?),
            _ => return None,
        })
    }
}

impl Multiply {
    fn parse<'a>(batched: bool, number: Number, mut fields: impl Iterator<Item = &'a str>) -> Option<Self> {
        let (a, b) = fields.next()?.split_once(',')?;
        let bias = match fields.next()? {
            "bias=none" => Bias::None,
            "bias=vector" => Bias::Vector,
            "bias=matrix" => Bias::Matrix,
            _ => return None,
        };
        let divisor = |alignment: &str| match alignment {
            "none" => Some(1),
            bytes => Some(bytes.parse::<u64>().ok()? / number.size()),
        };
        let divisors = three(fields.next()?.strip_prefix("align=")?.split(',').map(divisor))?;
        let _precision = fields.next()?;
        let sizes = |text: &str| three(text.split('x').map(|size| size.parse().ok()));
        let block = sizes(fields.next()?)?;
        let mut multiply = Self {
            number,
            batched,
            rows: [a == "row", b == "row"],
            bias,
            divisors,
            block,
            even_k: false,
            fits: false,
            sizes: None,
        };
        for field in fields {
            match field.split_once('=') {
                Some(("even_k", value)) => multiply.even_k = value == "true",
                Some(("fits", value)) => multiply.fits = value == "true",
                Some(("sizes", value)) => multiply.sizes = Some(sizes(value)?),
                // Other fields say how the code is made. Callers need not observe them.
                _ => {}
            }
        }
        Some(multiply)
    }
}

fn three(mut values: impl Iterator<Item = Option<u64>>) -> Option<[u64; 3]> {
    let mut next = || values.next().flatten();
    Some([next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_what_its_kernel_computes() {
        let key = "bmm;bfloat16;row,column;bias=vector;align=16,4,none;ieee;64x32x16;group=8;stages=3;warps=4;even_k=true;nonkdim=16;waves=0;sizes=1x2x3";
        let Some(Computation::Multiply(multiply)) = Computation::parse(key) else { panic!("{key}") };
        assert_eq!((multiply.number, multiply.batched, multiply.bias), (Number::BFloat, true, Bias::Vector));
        assert_eq!((multiply.rows, multiply.divisors), ([true, false], [8, 2, 1]));
        assert_eq!((multiply.block, multiply.even_k, multiply.fits), ([64, 32, 16], true, false));
        assert_eq!(multiply.sizes, Some([1, 2, 3]));
        assert!(matches!(
            Computation::parse("reference;float32;bias=true"),
            Some(Computation::Reference { number: Number::Single, bias: true })
        ));
        assert!(Computation::parse("mm;int8").is_none());
    }
}
