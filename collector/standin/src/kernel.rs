//! What a kernel computes and what it may assume, read from its name in the pack.

use std::collections::HashMap;
use std::path::Path;

use diode_core::Scaling;
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
    Serve(Serve),
    Fill(Number),
    FillScales,
    Reference { number: Number, bias: bool },
    GroupedReference { number: Number, scaling: Scaling },
    Compare(Number),
}

/// A multiplication of scaled or grouped operands, with everything that its code assumes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Serve {
    pub(crate) kind: ServeKind,
    pub(crate) number: Number,
    pub(crate) scaling: Scaling,
    pub(crate) block: [u64; 3],
    pub(crate) even_k: bool,
    /// Whether the tensor memory accelerator feeds it, so that it needs scratch memory.
    pub(crate) tma: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServeKind {
    Scaled,
    Grouped,
    Experts,
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
            Self::Serve(_) => &[(8, 9), (4, 15)],
            Self::Fill(_) => &[(8, 2), (4, 1)],
            Self::FillScales => &[(8, 2), (4, 1), (8, 2)],
            Self::GroupedReference { .. } => &[(8, 8), (4, 5), (8, 3)],
            Self::Reference { .. } => &[(8, 4), (4, 3), (8, 9)],
            Self::Compare(_) => &[(8, 4), (4, 2)],
        };
        parts.iter().chain(&[(8, 2)]).flat_map(|&(size, count)| vec![size; count]).collect()
    }

    fn parse(key: &str) -> Option<Self> {
        let mut fields = key.split(';');
        let kernel = fields.next()?;
        if kernel == "fill_scales" {
            return Some(Self::FillScales);
        }
        let number = match fields.next()? {
            "float16" => Number::Half,
            "bfloat16" => Number::BFloat,
            "float32" => Number::Single,
            "float8_e4m3fn" => Number::Fp8,
            "float8_e4m3fnuz" => Number::Fnuz,
            "int8" => Number::Byte,
            _ => return None,
        };
        Some(match kernel {
            "fill" => Self::Fill(number),
            "compare" => Self::Compare(number),
            "reference" => Self::Reference { number, bias: fields.next()? == "bias=true" },
            "grouped_reference" => Self::GroupedReference {
                number,
                scaling: fields.next()?.strip_prefix("scaling=")?.parse().ok()?,
            },
            "scaled_mm" => Self::Serve(Serve::parse(ServeKind::Scaled, number, fields)?),
            "grouped_mm" | "scaled_grouped_mm" => {
                Self::Serve(Serve::parse(ServeKind::Grouped, number, fields)?)
            }
            "fused_moe" => Self::Serve(Serve::parse(ServeKind::Experts, number, fields)?),
            "mm" | "bmm" => Self::Multiply(Multiply::parse(kernel == "bmm", number, fields)?),
            _ => return None,
        })
    }
}

impl Serve {
    fn parse<'a>(kind: ServeKind, number: Number, mut fields: impl Iterator<Item = &'a str>) -> Option<Self> {
        if fields.next()? != "row,column" {
            return None;
        }
        let scaling = fields.next()?.strip_prefix("scaling=")?.parse().ok()?;
        if fields.next()? != "align=16,16,16" {
            return None;
        }
        let _precision = fields.next()?;
        let block = three(fields.next()?.split('x').map(|size| size.parse().ok()))?;
        let (mut even_k, mut tma) = (false, false);
        for field in fields {
            even_k |= field == "even_k=true";
            tma |= field == "tma=true";
        }
        Some(Self { kind, number, scaling, block, even_k, tma })
    }

    /// The type of the output.
    pub(crate) fn out(&self) -> Number {
        if self.scaling == Scaling::None { self.number } else { Number::BFloat }
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
        let key = "fused_moe;int8;row,column;scaling=row;align=16,16,16;ieee;16x64x128;stages=3;warps=4;even_k=false;swap=true";
        let Some(Computation::Serve(serve)) = Computation::parse(key) else { panic!("{key}") };
        assert_eq!(
            (serve.kind, serve.number, serve.scaling),
            (ServeKind::Experts, Number::Byte, Scaling::Row)
        );
        assert_eq!(
            (serve.block, serve.even_k, serve.tma, serve.out()),
            ([16, 64, 128], false, false, Number::BFloat)
        );
    }
}
