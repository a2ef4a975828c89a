//! The problems that are to be computed.

use std::fmt::Write as _;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

use crate::error::{Field, Invalid};
use crate::ids::ProblemId;
use crate::named_enum::named_enum;
use crate::{DType, Layout, Op, OutputLayout};

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
}

impl ProblemFields {
    /// A row-major problem with one type for all matrices, as torch-diode's shapes describe it.
    pub fn plain(op: Op, b: u64, m: u64, n: u64, k: u64, dtype: DType) -> Self {
        Self {
            op,
            b,
            m,
            n,
            k,
            a_dtype: dtype,
            b_dtype: dtype,
            out_dtype: dtype,
            a_layout: Layout::Row,
            b_layout: Layout::Row,
            bias: if op.has_bias() { Bias::Matrix } else { Bias::None },
            out_layout: None,
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
        let (b, m, n, k) =
            (u128::from(fields.b), u128::from(fields.m), u128::from(fields.n), u128::from(fields.k));
        for (name, elements) in [("A", b * m * k), ("B matrix", b * k * n), ("output", b * m * n)] {
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
        if fields.out_layout == Some(OutputLayout::dense(fields.b, fields.m, fields.n)) {
            fields.out_layout = None;
        }
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
        let mut words = Vec::new();
        words.extend((p.a_layout == Layout::Column).then(|| "A in columns".to_owned()));
        words.extend((p.b_layout == Layout::Column).then(|| "B in columns".to_owned()));
        words.extend((p.bias == Bias::Vector).then(|| "vector bias".to_owned()));
        words.extend((p.b_dtype != p.a_dtype).then(|| format!("B of {}", p.b_dtype)));
        words.extend((p.out_dtype != p.a_dtype).then(|| format!("output of {}", p.out_dtype)));
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
        2.0 * self.0.b as f64 * self.0.m as f64 * self.0.n as f64 * self.0.k as f64
    }

    /// The bytes that must move at least once: both inputs are read and the output is written.
    pub fn bytes(&self) -> f64 {
        let p = &self.0;
        let (b, m, n, k) = (p.b as f64, p.m as f64, p.n as f64, p.k as f64);
        b * (m * k * p.a_dtype.size() as f64
            + k * n * p.b_dtype.size() as f64
            + m * n * p.out_dtype.size() as f64)
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
