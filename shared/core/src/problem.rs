//! The problems that are to be computed.

mod serving;
mod text;

use std::fmt::Write as _;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

use crate::Alignment;
use crate::error::{Field, Invalid};
use crate::ids::ProblemId;
use crate::named_enum::named_enum;

pub use crate::problem::serving::{Groups, Rows, Scaling, Stage, are_one_layer};
pub use crate::problem::text::{Columns, ProblemWords, begins_problem, problems_in, size, whole};

named_enum! {
    /// The form of the bias of `addmm` and `baddbmm`.
    Bias(Field::Bias) {
        /// The operator has no bias.
        None = "none",
        /// One value per column, as in `nn.Linear`.
        Vector = "vector",
        /// One value per output element, as torch-diode measured.
        Matrix = "matrix",
    }
}

/// The fields of a [`Problem`], before validation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProblemFields {
    pub op: Op,
    pub b: u64,
    pub m: u64,
    pub n: u64,
    pub k: u64,
    pub a_dtype: DType,
    pub b_dtype: DType,
    pub out_dtype: DType,
    pub a_layout: Layout,
    pub b_layout: Layout,
    pub bias: Bias,
    /// `None` for the dense row-major output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_layout: Option<OutputLayout>,
    #[serde(default = "unscaled", skip_serializing_if = "Scaling::is_none")]
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub scaling: Scaling,
    /// `None` for operators without groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<Groups>,
}

const fn unscaled() -> Scaling {
    Scaling::None
}

impl ProblemFields {
    /// A row-major problem with one type for all matrices, as torch-diode's shapes describe it. Operators of
    /// served models have their weights in columns, and write bfloat16 if the inputs have one byte. Their
    /// scales and groups must be added.
    pub fn plain(op: Op, b: u64, m: u64, n: u64, k: u64, dtype: DType) -> Self {
        let narrow = dtype.is_fp8() || dtype == DType::Int8;
        Self {
            op,
            b,
            m,
            n,
            k,
            a_dtype: dtype,
            b_dtype: dtype,
            out_dtype: if narrow && !op.is_plain() { DType::BFloat16 } else { dtype },
            a_layout: Layout::Row,
            b_layout: op.usual_b_layout(),
            bias: if op.has_bias() { Bias::Matrix } else { Bias::None },
            out_layout: None,
            scaling: Scaling::None,
            groups: None,
        }
    }
}

/// One matrix multiplication: operator, sizes, dtypes and layouts.
///
/// Always valid: it can only be made from [`ProblemFields`] that pass
/// validation, also when it is deserialised.
///
/// ```
/// use diode_core::{DType, Op, Problem, ProblemFields};
///
/// let problem = Problem::new(ProblemFields::plain(Op::Mm, 1, 4096, 4096, 4096, DType::BFloat16))?;
/// assert_eq!(problem.dims(), "4096×4096×4096");
/// assert_eq!(problem.flops(), 137_438_953_472.0);
///
/// let error = Problem::new(ProblemFields { k: 0, ..problem.into_fields() }).unwrap_err();
/// assert_eq!(error.to_string(), "K: got 0, expected a size from 1 to 2147483648");
/// # Ok::<(), diode_core::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(try_from = "ProblemFields", into = "ProblemFields")]
pub struct Problem(ProblemFields);

impl Problem {
    /// No size of a real matrix reaches this. The limit also keeps products of sizes from overflowing `u128`.
    pub const MAX_DIM: u64 = 1 << 31;
    /// The most elements of an operand or the output: kernels index with signed 64-bit numbers.
    pub const MAX_ELEMENTS: u128 = 1 << 62;

    pub fn new(mut fields: ProblemFields) -> Result<Self, Invalid> {
        let named = [(Field::B, fields.b), (Field::M, fields.m), (Field::N, fields.n), (Field::K, fields.k)];
        for (field, value) in named {
            if value == 0 || value > Self::MAX_DIM {
                return Err(Invalid::new(field, value, format!("a size from 1 to {}", Self::MAX_DIM)));
            }
        }
        if fields.b != 1 && !fields.op.is_batched() {
            return Err(Invalid::new(
                Field::B,
                fields.b,
                format!("1, since {} has no batch; bmm has", fields.op),
            ));
        }
        let groups = fields.groups.map_or(1, |groups| u128::from(groups.count));
        let (b, m, n, k) =
            (u128::from(fields.b), u128::from(fields.rows()), u128::from(fields.n), u128::from(fields.k));
        for (name, elements) in [("A", b * m * k), ("B matrix", b * k * n * groups), ("output", b * m * n)] {
            if elements > Self::MAX_ELEMENTS {
                return Err(Invalid::new(
                    format!("elements of {name}"),
                    elements,
                    format!("at most {}", Self::MAX_ELEMENTS),
                ));
            }
        }
        match (fields.op.has_bias(), fields.bias) {
            (true, Bias::None) => {
                return Err(Invalid::new(
                    Field::Bias,
                    "`none`",
                    format!("vector or matrix, since {} adds one", fields.op),
                ));
            }
            (false, Bias::Vector | Bias::Matrix) => {
                return Err(Invalid::new(
                    Field::Bias,
                    format_args!("`{}`", fields.bias),
                    format!("`none`, since {} adds no bias", fields.op),
                ));
            }
            _ => {}
        }
        if let Some(out) = fields.out_layout
            && out.size.iter().any(|size| !(1..=Self::MAX_DIM).contains(size))
        {
            let expected = format!("sizes from 1 to {}", Self::MAX_DIM);
            return Err(Invalid::new(Field::OutSize, format_args!("{:?}", out.size), expected));
        }
        if fields.out_layout == Some(OutputLayout::dense(fields.b, fields.rows(), fields.n)) {
            fields.out_layout = None;
        }
        serving::check(&fields)?;
        Ok(Self(fields))
    }

    /// The text that defines the problem's identity. Two problems are the same exactly if their canonical
    /// texts are the same.
    pub fn canonical(&self) -> String {
        let p = &self.0;
        let mut text = format!(
            "{};b={};m={};n={};k={};in={},{};out={};layout={},{};bias={}",
            p.op, p.b, p.m, p.n, p.k, p.a_dtype, p.b_dtype, p.out_dtype, p.a_layout, p.b_layout, p.bias
        );
        if let Some(out) = &p.out_layout {
            // Writing to a String cannot fail.
            let _ = write!(text, ";out_size={:?};out_stride={:?}", out.size, out.stride);
        }
        if p.scaling != Scaling::None {
            let _ = write!(text, ";scaling={}", p.scaling);
        }
        if let Some(Groups { count, top_k, stage, rows }) = p.groups {
            let stage = stage.map_or_else(String::new, |stage| format!(";stage={stage}"));
            let _ = write!(text, ";groups={count};top_k={top_k}{stage};rows={rows}");
        }
        text
    }

    pub fn id(&self) -> ProblemId {
        ProblemId::of(self.canonical().as_bytes())
    }

    /// The size as `M×N×K`, with the batch in front if it is more than 1.
    pub fn dims(&self) -> String {
        let p = &self.0;
        if p.b == 1 {
            format!("{}×{}×{}", p.m, p.n, p.k)
        } else {
            format!("{}×{}×{}×{}", p.b, p.m, p.n, p.k)
        }
    }

    /// Says in words how the problem differs from the plain problem of its op, size and input types. Empty if
    /// it does not.
    pub fn particulars(&self) -> Vec<String> {
        let p = &self.0;
        let usual = ProblemFields::plain(p.op, p.b, p.m, p.n, p.k, p.a_dtype);
        let mut words = Vec::new();
        words.extend((p.scaling != Scaling::None).then(|| format!("scales by {}", p.scaling)));
        if let Some(Groups { count, top_k, stage, rows }) = p.groups {
            words.push(format!("{count} groups"));
            words.extend((rows == Rows::Routed).then(|| format!("top {top_k}")));
            words.extend((rows == Rows::Even).then(|| "even rows".to_owned()));
            words.extend(stage.map(|stage| stage.to_string()));
        }
        words.extend((p.a_layout == Layout::Column).then(|| "A in columns".to_owned()));
        words.extend((p.b_layout != usual.b_layout).then(|| format!("B in {}s", p.b_layout)));
        words.extend((p.bias == Bias::Vector).then(|| "vector bias".to_owned()));
        words.extend((p.b_dtype != p.a_dtype).then(|| format!("B of {}", p.b_dtype)));
        words.extend((p.out_dtype != usual.out_dtype).then(|| format!("output of {}", p.out_dtype)));
        words.extend(p.out_layout.map(|out| {
            let transposed = OutputLayout::dense(p.b, p.n, p.m);
            let by = |numbers: [u64; 3]| numbers.map(|number| number.to_string()).join("×");
            if out == transposed && p.m != p.n {
                "transposed output".to_owned()
            } else {
                format!("output {} with strides {}", by(out.size), by(out.stride))
            }
        }));
        words
    }

    /// The number of operations: multiplications and additions count as one each.
    pub fn flops(&self) -> f64 {
        2.0 * self.0.b as f64 * self.0.rows() as f64 * self.0.n as f64 * self.0.k as f64
    }

    /// The bytes that must move at least once: inputs with their scales are read and the output is written. Of
    /// grouped problems, this is an average: only the weights of groups that have rows are read.
    pub fn bytes(&self) -> f64 {
        self.bytes_of(self.distinct_groups())
    }

    /// The validated fields.
    pub fn into_fields(self) -> ProblemFields {
        self.0
    }
}

impl Deref for Problem {
    type Target = ProblemFields;

    fn deref(&self) -> &ProblemFields {
        &self.0
    }
}

impl TryFrom<ProblemFields> for Problem {
    type Error = Invalid;

    fn try_from(fields: ProblemFields) -> Result<Self, Invalid> {
        Self::new(fields)
    }
}

impl From<Problem> for ProblemFields {
    fn from(problem: Problem) -> Self {
        problem.0
    }
}

named_enum! {
    /// A matrix multiplication operator.
    Op("op") {
        /// `A @ B`
        Mm = "mm",
        /// `bias + A @ B`; `nn.Linear` with a bias becomes this.
        Addmm = "addmm",
        /// `A @ B` for each matrix of a batch.
        Bmm = "bmm",
        /// `bias + A @ B` for each matrix of a batch.
        Baddbmm = "baddbmm",
        /// `A @ B` of scaled fp8 or int8, as `torch._scaled_mm` computes it.
        ScaledMm = "scaled_mm",
        /// `A @ B` where each group of A's rows has its own B. M is the rows of all groups.
        GroupedMm = "grouped_mm",
        /// The same with scaled operands.
        ScaledGroupedMm = "scaled_grouped_mm",
        /// One launch of vLLM's experts kernel. M is the number of tokens.
        FusedMoe = "fused_moe",
    }
}

impl Op {
    /// Whether the operator adds a bias.
    pub const fn has_bias(self) -> bool {
        matches!(self, Self::Addmm | Self::Baddbmm)
    }

    /// Whether the operator has a batch dimension.
    pub const fn is_batched(self) -> bool {
        matches!(self, Self::Bmm | Self::Baddbmm)
    }

    /// The batched operator for a plain one: with a bias if the operator has one.
    #[must_use]
    pub const fn batched(self) -> Self {
        if self.has_bias() { Self::Baddbmm } else { Self::Bmm }
    }
}

named_enum! {
    /// The order of an input matrix in memory.
    Layout("layout") {
        /// Rows are contiguous, as in torch's default ("n").
        Row = "row",
        /// Columns are contiguous, as in the transposed weight of `nn.Linear` ("t").
        Column = "column",
    }
}

/// An output that is not the dense row-major tensor of shape (B, M, N).
///
/// torch-diode records the output's size and stride as triples. A dense
/// row-major output is the normal case and is stored as `None` on the problem,
/// so that two ways of writing the same thing have one identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OutputLayout {
    pub size: [u64; 3],
    pub stride: [u64; 3],
}

impl OutputLayout {
    /// The dense row-major layout of a (B, M, N) output.
    pub const fn dense(b: u64, m: u64, n: u64) -> Self {
        Self { size: [b, m, n], stride: [m.saturating_mul(n), n, 1] }
    }
}

named_enum! {
    /// The element type of a matrix.
    DType("dtype") {
        Float16 = "float16",
        BFloat16 = "bfloat16",
        Float32 = "float32",
        Float64 = "float64",
        Float8E4M3 = "float8_e4m3fn",
        Float8E5M2 = "float8_e5m2",
        Int8 = "int8",
        Int16 = "int16",
        Int32 = "int32",
        Int64 = "int64",
        Bool = "bool",
        /// The fp8 of MI300X, without negative zero.
        Float8E4M3Fnuz = "float8_e4m3fnuz",
    }
}

impl DType {
    /// Bytes one element takes in memory.
    pub const fn size(self) -> u64 {
        match self {
            Self::Float64 | Self::Int64 => 8,
            Self::Float32 | Self::Int32 => 4,
            Self::Float16 | Self::BFloat16 | Self::Int16 => 2,
            Self::Float8E4M3 | Self::Float8E4M3Fnuz | Self::Float8E5M2 | Self::Int8 | Self::Bool => 1,
        }
    }

    /// Whether elements are floats of 8 bits.
    pub const fn is_fp8(self) -> bool {
        matches!(self, Self::Float8E4M3 | Self::Float8E4M3Fnuz | Self::Float8E5M2)
    }

    /// Reads torch's aliases as well as the canonical names.
    pub fn from_torch_name(name: &str) -> Result<Self, Invalid> {
        match name {
            "half" => Ok(Self::Float16),
            "float" => Ok(Self::Float32),
            "double" => Ok(Self::Float64),
            "short" => Ok(Self::Int16),
            "int" => Ok(Self::Int32),
            "long" => Ok(Self::Int64),
            other => other.parse(),
        }
    }
}

named_enum! {
    /// What limits a problem, judged from the problem alone. A model states its confidence for each
    /// group, not for each problem.
    ProblemGroup("problem group") {
        /// Some rows of an operand or of the output are not multiples of 16 bytes.
        Unaligned = "unaligned",
        /// K is long and the output small: there are few tiles, each with a long sum.
        TallK = "tall-k",
        /// At most 16 rows, as when a model generates tokens for a few sequences at once.
        Decode = "decode",
        /// At most 64 rows or columns.
        Skinny = "skinny",
        /// None of the above.
        Rest = "rest",
    }
}

impl ProblemGroup {
    /// The first group of the list to which a problem belongs.
    ///
    /// ```
    /// use diode_core::{DType, Op, Problem, ProblemFields, ProblemGroup};
    ///
    /// let of = |m, n, k| Problem::new(ProblemFields::plain(Op::Mm, 1, m, n, k, DType::BFloat16))
    ///     .map(|problem| ProblemGroup::for_problem(&problem));
    /// assert_eq!(of(16, 8192, 4096)?, ProblemGroup::Decode);
    /// assert_eq!(of(128, 128, 4096)?, ProblemGroup::TallK);
    /// assert_eq!(of(16, 4095, 4096)?, ProblemGroup::Unaligned);
    /// # Ok::<(), diode_core::Invalid>(())
    /// ```
    pub fn for_problem(problem: &Problem) -> Self {
        const TALL_K: u64 = 2048;
        const SMALL_OUTPUT: u64 = 65_536;
        const DECODE: u64 = 16;
        const SKINNY: u64 = 64;
        let rows = problem.alignment();
        if [rows.a, rows.b, rows.out].iter().any(|&rows| rows != Alignment::Bytes16) {
            Self::Unaligned
        } else if problem.k >= TALL_K && problem.m.saturating_mul(problem.n) <= SMALL_OUTPUT {
            Self::TallK
        } else if problem.m <= DECODE {
            Self::Decode
        } else if problem.m.min(problem.n) <= SKINNY {
            Self::Skinny
        } else {
            Self::Rest
        }
    }

    /// The problems of the group, in words for people.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Unaligned => "problems with unaligned rows",
            Self::TallK => "problems of large K",
            Self::Decode => "problems of few rows",
            Self::Skinny => "skinny problems",
            Self::Rest => "common problems",
        }
    }
}

named_enum! {
    /// What follows a multiplication element by element. A tile computes it in its own kernel. After the
    /// library, a second kernel computes it.
    Epilogue("epilogue") {
        None = "none",
        Relu = "relu",
        Gelu = "gelu",
        /// GELU, approximated with `tanh`.
        GeluTanh = "gelu-tanh",
        Silu = "silu",
        /// The SiLU of the product, times another matrix.
        SiluGate = "silu-gate",
        /// The sum of the product and another matrix.
        Residual = "residual",
        /// The product, written as float32.
        Float32 = "float32",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square() -> ProblemFields {
        ProblemFields::plain(Op::Mm, 1, 64, 128, 32, DType::BFloat16)
    }

    #[test]
    fn a_dense_output_has_one_identity() {
        let plain = Problem::new(square()).unwrap();
        let spelled =
            Problem::new(ProblemFields { out_layout: Some(OutputLayout::dense(1, 64, 128)), ..square() })
                .unwrap();
        assert_eq!(plain, spelled);
        assert_eq!(plain.id(), spelled.id());
    }

    #[test]
    fn particulars_are_what_is_not_plain() {
        let words = |fields: ProblemFields| Problem::new(fields).unwrap().particulars().join(", ");
        assert_eq!(words(square()), "");
        let linear =
            ProblemFields { op: Op::Addmm, b_layout: Layout::Column, bias: Bias::Vector, ..square() };
        assert_eq!(words(linear), "B in columns, vector bias");
        let mixed = ProblemFields { a_layout: Layout::Column, out_dtype: DType::Float32, ..square() };
        assert_eq!(words(mixed), "A in columns, output of float32");
        let out =
            |size, stride| ProblemFields { out_layout: Some(OutputLayout { size, stride }), ..square() };
        assert_eq!(words(out([1, 128, 64], [8192, 64, 1])), "transposed output");
        assert_eq!(words(out([1, 64, 128], [0, 1, 64])), "output 1×64×128 with strides 0×1×64");
    }

    #[test]
    fn refusals_name_what_was_given_and_expected() {
        let error = Problem::new(ProblemFields { m: 0, ..square() }).unwrap_err();
        assert_eq!(error.to_string(), "M: got 0, expected a size from 1 to 2147483648");
        let out_layout = Some(OutputLayout { size: [1, 0, 128], stride: [0, 128, 1] });
        let error = Problem::new(ProblemFields { out_layout, ..square() }).unwrap_err();
        assert_eq!(error.to_string(), "out_size: got [1, 0, 128], expected sizes from 1 to 2147483648");
        let error = Problem::new(ProblemFields { bias: Bias::Vector, ..square() }).unwrap_err();
        assert_eq!(error.to_string(), "bias: got `vector`, expected `none`, since mm adds no bias");
        assert!(
            Problem::new(ProblemFields { op: Op::Bmm, b: 2, m: 1 << 31, n: 1 << 31, ..square() }).is_err()
        );
    }

    #[test]
    fn deserialising_validates() {
        let mut value = serde_json::to_value(Problem::new(square()).unwrap()).unwrap();
        value["k"] = 0.into();
        assert!(serde_json::from_value::<Problem>(value).is_err());
    }
}
