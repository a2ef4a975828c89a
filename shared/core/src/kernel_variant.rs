//! Which compiled kernels a problem needs.

use std::fmt;
use std::str::FromStr;

use crate::{Alignment, Bias, DType, Invalid, Layout, Op, OperandAlignment, Problem};

/// A part of a kernel's name. It marks a kernel that is compiled for the sizes of one problem.
pub const EXACT_SIZES: &str = ";sizes=";

/// What a kernel is compiled for beside its config. A pack holds kernels for some variants. A problem can be
/// measured if the pack has kernels for the problem's variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KernelVariant {
    pub batched: bool,
    pub dtype: DType,
    pub a_layout: Layout,
    pub b_layout: Layout,
    pub bias: Bias,
    pub alignment: OperandAlignment,
}

impl KernelVariant {
    /// The types that kernels are generated for.
    pub const DTYPES: [DType; 3] = [DType::Float16, DType::BFloat16, DType::Float32];

    /// The variant that computes a problem, or the reason why there is none.
    pub fn for_problem(problem: &Problem) -> Result<Self, String> {
        if !problem.op.is_plain() {
            let known = Op::PLAIN.map(Op::as_str).join(", ");
            return Err(format!("kernels exist for {known}, not for {}", problem.op));
        }
        let dtype = problem.a_dtype;
        if problem.b_dtype != dtype || problem.out_dtype != dtype {
            let (b, out) = (problem.b_dtype, problem.out_dtype);
            return Err(format!("kernels exist for one type throughout, not for {dtype}, {b} and {out}"));
        }
        Self::check_dtype(dtype)?;
        if problem.out_layout.is_some() {
            return Err("kernels write dense row-major outputs only".to_owned());
        }
        if problem.needs_64_bit_indexing() {
            return Err(
                "kernels index with 32 bits, and a matrix has more than 2147483647 elements".to_owned()
            );
        }
        Ok(Self {
            batched: problem.op.is_batched(),
            dtype,
            a_layout: problem.a_layout,
            b_layout: problem.b_layout,
            bias: problem.bias,
            alignment: problem.alignment(),
        })
    }

    /// The variant of a kernel, from its name in a pack. `None` for kernels that prepare and check
    /// measurements.
    pub fn of_kernel(name: &str) -> Option<Self> {
        let (end, _) = name.match_indices(';').nth(4)?;
        name[..end].parse().ok()
    }

    /// Refuses types that no kernels are generated for.
    pub fn check_dtype(dtype: DType) -> Result<(), String> {
        if Self::DTYPES.contains(&dtype) {
            return Ok(());
        }
        Err(format!("kernels exist for float16, bfloat16 and float32, not for {dtype}"))
    }

    /// The op of the problems that the variant computes.
    pub const fn op(&self) -> Op {
        match (self.batched, self.bias) {
            (false, Bias::None) => Op::Mm,
            (false, _) => Op::Addmm,
            (true, Bias::None) => Op::Bmm,
            (true, _) => Op::Baddbmm,
        }
    }

    /// Whether every row begins at a multiple of 16 bytes.
    pub fn is_aligned(&self) -> bool {
        let OperandAlignment { a, b, out } = self.alignment;
        [a, b, out] == [Alignment::Bytes16; 3]
    }
}

/// Kernel names begin with this text: `mm;bfloat16;row,row;bias=none;align=16,16,16`.
impl fmt::Display for KernelVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { batched, dtype, a_layout, b_layout, bias, alignment } = self;
        let (kernel, OperandAlignment { a, b, out }) = (if *batched { "bmm" } else { "mm" }, alignment);
        write!(f, "{kernel};{dtype};{a_layout},{b_layout};bias={bias};align={a},{b},{out}")
    }
}

impl FromStr for KernelVariant {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let refuse = || {
            let expected = "a text such as `mm;bfloat16;row,row;bias=none;align=16,16,16`";
            Invalid::new(
                "kernel variant",
                format_args!("`{:.80}`", text.escape_debug().to_string()),
                expected,
            )
        };
        let parts: Vec<&str> = text.split(';').collect();
        let [kernel, dtype, layouts, bias, alignment] = parts[..] else { return Err(refuse()) };
        let (a_layout, b_layout) = layouts.split_once(',').ok_or_else(refuse)?;
        let alignment = alignment.strip_prefix("align=").ok_or_else(refuse)?;
        let [a, b, out] = alignment.split(',').collect::<Vec<_>>()[..] else { return Err(refuse()) };
        let variant = Self {
            batched: match kernel {
                "mm" => false,
                "bmm" => true,
                _ => return Err(refuse()),
            },
            dtype: dtype.parse()?,
            a_layout: a_layout.parse()?,
            b_layout: b_layout.parse()?,
            bias: bias.strip_prefix("bias=").ok_or_else(refuse)?.parse()?,
            alignment: OperandAlignment { a: a.parse()?, b: b.parse()?, out: out.parse()? },
        };
        // Names are compared as text, so each variant must have exactly one name.
        if variant.to_string() == text { Ok(variant) } else { Err(refuse()) }
    }
}

impl serde::Serialize for KernelVariant {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for KernelVariant {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Groups, ProblemFields};

    #[test]
    fn names_are_read_back_and_others_are_refused() {
        let plain = ProblemFields::plain(Op::Baddbmm, 3, 64, 33, 70, DType::Float16);
        let problem = Problem::new(plain).unwrap();
        let variant = KernelVariant::for_problem(&problem).unwrap();
        assert_eq!(variant.to_string(), "bmm;float16;row,row;bias=matrix;align=4,none,none");
        assert_eq!(variant.to_string().parse(), Ok(variant));
        assert_eq!((variant.op(), variant.is_aligned()), (Op::Baddbmm, false));
        let good = "mm;bfloat16;row,column;bias=none;align=16,16,16";
        assert_eq!(KernelVariant::of_kernel(&format!("{good};ieee;64x64x32")), good.parse().ok());
        assert_eq!(KernelVariant::of_kernel("reference;bfloat16;bias=true"), None);
        let parsed: KernelVariant = good.parse().unwrap();
        assert!(parsed.is_aligned() && parsed.op() == Op::Mm);
        for bad in [
            "",
            "fill;bfloat16",
            "mm;bfloat16;row;bias=none;align=16,16,16",
            "mm;bfloat16;row,column;none;align=16,16,16",
            "mm;bfloat16;row,column;bias=none;align=16,16",
            "mm;bfloat16;row,column;bias=none;align=16,16,16;ieee",
            "mm;bfloat99;row,column;bias=none;align=16,16,16",
        ] {
            assert!(bad.parse::<KernelVariant>().is_err(), "{bad}");
        }
    }

    #[test]
    fn problems_without_kernels_say_why() {
        let odd = |dtype| Problem::new(ProblemFields::plain(Op::Mm, 1, 64, 64, 64, dtype)).unwrap();
        assert!(
            KernelVariant::for_problem(&odd(DType::Float8E4M3)).unwrap_err().contains("kernels exist for")
        );
        assert!(KernelVariant::for_problem(&odd(DType::BFloat16)).is_ok());
        let plain = ProblemFields::plain(Op::GroupedMm, 1, 64, 64, 64, DType::BFloat16);
        let grouped = Problem::new(ProblemFields { groups: Some(Groups::routed(8, 2)), ..plain }).unwrap();
        let said = KernelVariant::for_problem(&grouped).unwrap_err();
        assert_eq!(said, "kernels exist for mm, addmm, bmm, baddbmm, not for grouped_mm");
    }
}
