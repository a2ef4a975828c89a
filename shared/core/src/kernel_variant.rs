//! Which compiled kernels a problem needs.

use std::fmt;
use std::str::FromStr;

use crate::named_enum::named_enum;
use crate::{Alignment, Bias, DType, Invalid, Layout, Op, OperandAlignment, Problem, Scaling};

/// A part of a kernel's name. It marks a kernel that is compiled for the sizes of one problem.
pub const EXACT_SIZES: &str = ";sizes=";

named_enum! {
    /// What a kernel computes.
    KernelKind("kernel") {
        /// `mm` and `addmm`.
        Mm = "mm",
        /// `bmm` and `baddbmm`.
        Bmm = "bmm",
        ScaledMm = "scaled_mm",
        GroupedMm = "grouped_mm",
        ScaledGroupedMm = "scaled_grouped_mm",
        FusedMoe = "fused_moe",
    }
}

impl KernelKind {
    /// The kernel that computes the problems of an op. `None` if there is none: then no command computes or predicts
    /// them, no pack has kernels for them, and no agent is asked for them.
    pub const fn of(op: Op) -> Option<Self> {
        match op {
            Op::Mm | Op::Addmm => Some(Self::Mm),
            Op::Bmm | Op::Baddbmm => Some(Self::Bmm),
            Op::ScaledMm => Some(Self::ScaledMm),
            Op::GroupedMm => Some(Self::GroupedMm),
            Op::ScaledGroupedMm => Some(Self::ScaledGroupedMm),
            Op::FusedMoe => Some(Self::FusedMoe),
        }
    }

    /// Whether the kernel computes an op of [`Op::PLAIN`].
    pub const fn is_plain(self) -> bool {
        matches!(self, Self::Mm | Self::Bmm)
    }
}

/// What a kernel is compiled for beside its config. A pack holds kernels for some variants. A problem can be
/// measured if the pack has kernels for the problem's variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KernelVariant {
    pub kernel: KernelKind,
    pub dtype: DType,
    pub a_layout: Layout,
    pub b_layout: Layout,
    pub bias: Bias,
    pub scaling: Scaling,
    pub alignment: OperandAlignment,
}

impl KernelVariant {
    /// The types that kernels of [`Op::PLAIN`] are generated for.
    pub const DTYPES: [DType; 3] = [DType::Float16, DType::BFloat16, DType::Float32];
    /// The types that kernels are generated for whose operands have scales. They write bfloat16.
    pub const SCALED_DTYPES: [DType; 3] = [DType::Float8E4M3, DType::Float8E4M3Fnuz, DType::Int8];

    /// Why nobody can compute a problem, in one sentence. `None` if there are kernels for its operator and types.
    pub fn obstacle(problem: &Problem) -> Option<String> {
        let refused = Self::for_problem(problem).err()?;
        let why = if KernelKind::of(problem.op).is_some_and(KernelKind::is_plain) {
            let dtypes = [problem.a_dtype, problem.b_dtype, problem.out_dtype];
            dtypes.into_iter().find_map(|dtype| Self::check_dtype(dtype).err())?
        } else {
            refused
        };
        Some(format!("{} {}: {why}", problem.op, problem.dims()))
    }

    /// The variant that computes a problem, or the reason why there is none.
    pub fn for_problem(problem: &Problem) -> Result<Self, String> {
        let (dtype, op) = (problem.a_dtype, problem.op);
        let kernel = KernelKind::of(op).ok_or_else(|| format!("no kernels exist for {op}"))?;
        let scaled = problem.scaling != Scaling::None;
        let out_dtype = if scaled { DType::BFloat16 } else { dtype };
        if problem.b_dtype != dtype || (!scaled && problem.out_dtype != out_dtype) {
            let (b, out) = (problem.b_dtype, problem.out_dtype);
            return Err(format!("kernels exist for one type throughout, not for {dtype}, {b} and {out}"));
        }
        if problem.out_dtype != out_dtype {
            return Err(format!("kernels of {op} with scales write {out_dtype}, not {}", problem.out_dtype));
        }
        if kernel.is_plain() {
            Self::check_dtype(dtype)?;
        } else {
            let served: &[DType] =
                if scaled { &Self::SCALED_DTYPES } else { &[DType::BFloat16, DType::Float16] };
            if !served.contains(&dtype) {
                let known: Vec<&str> = served.iter().map(|dtype| dtype.as_str()).collect();
                return Err(format!("kernels of {op} exist for {}, not for {dtype}", known.join(", ")));
            }
        }
        if problem.out_layout.is_some() {
            return Err("kernels write dense row-major outputs only".to_owned());
        }
        if problem.needs_64_bit_indexing() {
            return Err(
                "kernels index with 32 bits, and a matrix has more than 2147483647 elements".to_owned()
            );
        }
        let variant = Self {
            kernel,
            dtype,
            a_layout: problem.a_layout,
            b_layout: problem.b_layout,
            bias: problem.bias,
            scaling: problem.scaling,
            alignment: problem.alignment(),
        };
        if !kernel.is_plain() && !variant.is_aligned() {
            return Err(format!("kernels of {op} need an N and a K whose rows take a multiple of 16 bytes"));
        }
        if !kernel.is_plain() && (variant.a_layout, variant.b_layout) != (Layout::Row, Layout::Column) {
            return Err(format!("kernels of {op} read weights as N×K, in columns"));
        }
        Ok(variant)
    }

    /// The variant of a kernel, from its name in a pack. `None` for kernels that prepare and check
    /// measurements.
    pub fn of_kernel(name: &str) -> Option<Self> {
        let (end, _) = name.match_indices(';').nth(4)?;
        name[..end].parse().ok()
    }

    /// Refuses types that no kernels of plain multiplications are generated for.
    pub fn check_dtype(dtype: DType) -> Result<(), String> {
        if Self::DTYPES.contains(&dtype) {
            return Ok(());
        }
        Err(format!("kernels exist for float16, bfloat16 and float32, not for {dtype}"))
    }

    /// The op of the problems that the variant computes.
    pub const fn op(&self) -> Op {
        match (self.kernel, self.bias) {
            (KernelKind::Mm, Bias::None) => Op::Mm,
            (KernelKind::Mm, _) => Op::Addmm,
            (KernelKind::Bmm, Bias::None) => Op::Bmm,
            (KernelKind::Bmm, _) => Op::Baddbmm,
            (KernelKind::ScaledMm, _) => Op::ScaledMm,
            (KernelKind::GroupedMm, _) => Op::GroupedMm,
            (KernelKind::ScaledGroupedMm, _) => Op::ScaledGroupedMm,
            (KernelKind::FusedMoe, _) => Op::FusedMoe,
        }
    }

    /// The type of the output.
    pub fn out_dtype(&self) -> DType {
        if self.scaling == Scaling::None { self.dtype } else { DType::BFloat16 }
    }

    /// Whether every row begins at a multiple of 16 bytes.
    pub fn is_aligned(&self) -> bool {
        let OperandAlignment { a, b, out } = self.alignment;
        [a, b, out] == [Alignment::Bytes16; 3]
    }
}

/// Kernel names begin with this text: `mm;bfloat16;row,row;bias=none;align=16,16,16`. Kernels of the other ops have
/// `scaling=row` in place of the bias, which they never add.
impl fmt::Display for KernelVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, dtype, a_layout, b_layout, bias, scaling, alignment } = self;
        write!(f, "{kernel};{dtype};{a_layout},{b_layout};")?;
        if kernel.is_plain() {
            write!(f, "bias={bias}")?;
        } else {
            write!(f, "scaling={scaling}")?;
        }
        let OperandAlignment { a, b, out } = alignment;
        write!(f, ";align={a},{b},{out}")
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
        let [kernel, dtype, layouts, term, alignment] = parts[..] else { return Err(refuse()) };
        let kernel: KernelKind = kernel.parse().map_err(|_| refuse())?;
        let (a_layout, b_layout) = layouts.split_once(',').ok_or_else(refuse)?;
        let alignment = alignment.strip_prefix("align=").ok_or_else(refuse)?;
        let [a, b, out] = alignment.split(',').collect::<Vec<_>>()[..] else { return Err(refuse()) };
        let (bias, scaling) = if kernel.is_plain() {
            (term.strip_prefix("bias=").ok_or_else(refuse)?.parse()?, Scaling::None)
        } else {
            (Bias::None, term.strip_prefix("scaling=").ok_or_else(refuse)?.parse()?)
        };
        let variant = Self {
            kernel,
            dtype: dtype.parse()?,
            a_layout: a_layout.parse()?,
            b_layout: b_layout.parse()?,
            bias,
            scaling,
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
            "mm;bfloat16;row,column;scaling=none;align=16,16,16",
            "scaled_mm;int8;row,column;bias=none;align=16,16,16",
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
        let of = |fields| KernelVariant::for_problem(&Problem::new(fields).unwrap());
        let plain = ProblemFields::plain(Op::GroupedMm, 1, 64, 64, 64, DType::BFloat16);
        let grouped = ProblemFields { groups: Some(Groups::routed(8, 2)), ..plain };
        assert_eq!(
            of(grouped.clone()).unwrap().to_string(),
            "grouped_mm;bfloat16;row,column;scaling=none;align=16,16,16"
        );
        let said = of(ProblemFields { k: 63, ..grouped.clone() }).unwrap_err();
        assert_eq!(said, "kernels of grouped_mm need an N and a K whose rows take a multiple of 16 bytes");
        let said = of(ProblemFields { b_layout: Layout::Row, ..grouped }).unwrap_err();
        assert_eq!(said, "kernels of grouped_mm read weights as N×K, in columns");
        let plain = ProblemFields::plain(Op::ScaledMm, 1, 64, 64, 64, DType::Float8E4M3);
        let scaled = ProblemFields { scaling: Scaling::Row, ..plain };
        let text = "scaled_mm;float8_e4m3fn;row,column;scaling=row;align=16,16,16";
        let variant = of(scaled.clone()).unwrap();
        assert_eq!((variant.to_string().as_str(), text.parse()), (text, Ok(variant)));
        assert_eq!(variant.op(), Op::ScaledMm);
        let said = of(ProblemFields { out_dtype: DType::Float16, ..scaled }).unwrap_err();
        assert_eq!(said, "kernels of scaled_mm with scales write bfloat16, not float16");
    }
}
