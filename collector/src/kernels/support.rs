//! The kernels that prepare and check a measurement, see `kernels/support.py`.

use diode_core::{Alignment, DType, KernelVariant, Scaling};
use serde_json::{Value, json};

use crate::kernels::variant::triton_type;

/// How many elements one program of `fill` and `compare` processes.
pub(crate) const BLOCK: u32 = 4096;
/// The tile of the reference. Any tile would do.
pub(crate) const REFERENCE_TILE: [u32; 3] = [64, 64, 32];

/// A kernel that prepares or checks measurements of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Support {
    Fill(DType),
    /// Scales, and the weights of routed rows.
    FillScales,
    Reference {
        dtype: DType,
        bias: bool,
    },
    /// The reference of scaled and grouped rows.
    GroupedReference {
        dtype: DType,
        scaling: Scaling,
    },
    Compare(DType),
}

impl Support {
    /// The four kernels that measuring a variant needs.
    pub(crate) fn all(variant: &KernelVariant) -> [Self; 4] {
        let (dtype, scaling) = (variant.dtype, variant.scaling);
        let [first, second] = if variant.kernel.is_plain() {
            [false, true].map(|bias| Self::Reference { dtype, bias })
        } else {
            [Self::FillScales, Self::GroupedReference { dtype, scaling }]
        };
        [Self::Fill(dtype), first, second, Self::Compare(variant.out_dtype())]
    }

    pub(crate) fn key(self) -> String {
        match self {
            Self::Fill(dtype) => format!("fill;{dtype}"),
            Self::FillScales => "fill_scales".to_owned(),
            Self::Reference { dtype, bias } => format!("reference;{dtype};bias={bias}"),
            Self::GroupedReference { dtype, scaling } => {
                format!("grouped_reference;{dtype};scaling={scaling}")
            }
            Self::Compare(dtype) => format!("compare;{dtype}"),
        }
    }

    pub(crate) fn request(self, arch: &str) -> Value {
        let [m, n, k] = REFERENCE_TILE;
        let (kernel, types, constants) = match self {
            Self::Fill(dtype) => (
                "fill",
                json!({"out": pointer(dtype), "count": "i64", "seed": "i32"}),
                json!({"BLOCK": BLOCK}),
            ),
            Self::FillScales => (
                "fill_scales",
                json!({"out": "*fp32", "count": "i64", "seed": "i32", "rows": "i64", "columns": "i64"}),
                json!({"BLOCK": BLOCK}),
            ),
            Self::GroupedReference { dtype, scaling } => (
                "grouped_reference",
                json!({
                    "A": pointer(dtype), "B": pointer(dtype), "a_scales": "*fp32", "b_scales": "*fp32", "out": "*fp32",
                    "pairs": "*i32", "experts": "*i32", "weights": "*fp32", "M": "i32", "N": "i32", "K": "i32",
                    "top_k": "i32", "weighted": "i32", "a_scale_row": "i64", "b_scale_group": "i64",
                    "b_scale_row": "i64",
                }),
                json!({"SCALING": scaling.as_str(), "BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}),
            ),
            Self::Reference { dtype, bias } => (
                "reference",
                reference_types(dtype),
                json!({
                    "ACC": accumulator(dtype).0, "HAS_BIAS": bias, "BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k,
                }),
            ),
            Self::Compare(dtype) => (
                "compare",
                json!({
                    "C": pointer(dtype), "expected": accumulator(dtype).1, "wrong": "*i32", "count": "i64",
                    "absolute": "fp32", "relative": "fp32",
                }),
                json!({"BLOCK": BLOCK}),
            ),
        };
        json!({
            "kernel": kernel,
            "arch": arch,
            "types": types,
            "divisible": {},
            "constants": constants,
            "options": {"num_warps": 4, "num_stages": 2},
        })
    }
}

/// How many bytes one element of the reference takes.
pub(crate) fn reference_size(dtype: DType) -> u64 {
    if dtype == DType::Float32 { 8 } else { 4 }
}

/// How far a result may be from the reference: an absolute part, which grows with the root of K, and a
/// relative part. Both are a few times the rounding of the output's type. TF32 gets more, because its inputs
/// are rounded, too.
pub(crate) fn tolerance(dtype: DType, k: u64, tf32: bool) -> (f32, f32) {
    let root = (k as f32).sqrt();
    match dtype {
        DType::Float32 if tf32 => (4e-3 * root, 4e-3),
        // Every partial sum is rounded, and partial sums grow with the root of K. Together, the error grows
        // with K.
        DType::Float32 => (1e-5 * root + 2e-7 * k as f32, 1e-5),
        DType::Float16 => (1e-3 * root, 2e-3),
        // Hopper cuts each partial sum of fp8 to 14 bits.
        DType::Float8E4M3 | DType::Float8E4M3Fnuz => (2e-3 * root + 1e-6 * root * k as f32, 3e-2),
        // Inputs are 40 times as large as those of other types.
        DType::Int8 => (1.0 * root, 1.6e-2),
        _ => (1e-3 * root, 1.6e-2),
    }
}

/// The type of the sums. Products of 16-bit types are exact in fp32, and products of fp32 are exact in fp64.
fn accumulator(dtype: DType) -> (&'static str, &'static str) {
    if dtype == DType::Float32 { ("tl.fp64", "*fp64") } else { ("tl.fp32", "*fp32") }
}

fn pointer(dtype: DType) -> String {
    format!("*{}", triton_type(dtype).unwrap_or("?"))
}

fn reference_types(dtype: DType) -> Value {
    let mut types = json!({"out": accumulator(dtype).1});
    for name in ["A", "B", "bias"] {
        types[name] = pointer(dtype).into();
    }
    for name in ["M", "N", "K"] {
        types[name] = "i32".into();
    }
    for name in [
        "a_row",
        "a_column",
        "b_row",
        "b_column",
        "bias_row",
        "bias_column",
        "batch_a",
        "batch_b",
        "batch_bias",
    ] {
        types[name] = "i64".into();
    }
    types
}

/// Every alignment that operands of a type can have.
pub(crate) fn alignments(dtype: DType) -> &'static [Alignment] {
    const ALL: [Alignment; 3] = [Alignment::Bytes16, Alignment::Bytes4, Alignment::None];
    // An element takes four bytes, so the alignment is never below 4.
    if dtype == DType::Float32 { &ALL[..2] } else { &ALL }
}
