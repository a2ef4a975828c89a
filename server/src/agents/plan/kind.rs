use std::fmt;

use diode_core::alignment::Alignment;
use diode_core::api::{Ability, SizeRange};
use diode_core::{DType, Layout, Op, Problem};

use super::size::SizeBin;

/// The types that the plan asks for; others are measured by people who need them.
pub(in crate::agents) const DTYPES: [DType; 3] = [DType::BFloat16, DType::Float16, DType::Float32];

/// The batches that the plan asks for. Those of 1 are multiplications without a batch.
pub(super) const BATCHES: &[SizeBin] = SizeBin::ALL.split_at(1).1.split_at(3).0;

/// [`Kind::use_by_programs`] on average over operators, types, layouts and sizes.
pub(super) const USUAL_USE: f64 = 129.0;

/// Problems that count as alike: one of them says much about the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    pub op: Op,
    pub dtype: DType,
    pub b_layout: Layout,
    /// Whether every row begins at a multiple of 16 bytes.
    pub aligned: bool,
    pub(super) b: SizeBin,
    pub(super) m: SizeBin,
    pub(super) n: SizeBin,
    pub(super) k: SizeBin,
}

impl Kind {
    /// `None` for problems that the plan does not ask for.
    pub fn of(problem: &Problem) -> Option<Self> {
        let is_plain = problem.a_layout == Layout::Row
            && problem.out_layout.is_none()
            && problem.b_dtype == problem.a_dtype
            && problem.out_dtype == problem.a_dtype;
        if !is_plain || !DTYPES.contains(&problem.a_dtype) {
            return None;
        }
        let alignment = problem.alignment();
        Some(Self {
            op: problem.op,
            dtype: problem.a_dtype,
            b_layout: problem.b_layout,
            aligned: [alignment.a, alignment.b, alignment.out] == [Alignment::Bytes16; 3],
            b: SizeBin::of(problem.b)?,
            m: SizeBin::of(problem.m)?,
            n: SizeBin::of(problem.n)?,
            k: SizeBin::of(problem.k)?,
        })
    }

    /// Whether devices of an ability can measure some of its problems.
    pub(super) fn is_for(self, ability: &Ability) -> bool {
        ability.ops.contains(&self.op)
            && ability.dtypes.contains(&self.dtype)
            && ability.layouts.contains(&self.b_layout)
            && (self.aligned || ability.unaligned)
    }

    /// The ranges in which M and N lie.
    pub(in crate::agents) fn sides(self) -> (SizeRange, SizeRange) {
        let range = |bin: SizeBin| SizeRange { least: bin.least(), most: bin.most() };
        (range(self.m), range(self.n))
    }

    /// How soon its first problem comes, beside those of others. Half of it is the same for all operators, types,
    /// layouts and sizes: a model that has seen few problems of a kind picks badly there, and somebody computes them.
    /// The other half is how often programs do. How long a problem takes does not count: a plan that put long ones off
    /// had more problems in an hour, and worse models of them and of fp32.
    pub(super) fn weight(self) -> f64 {
        let batches = if self.op.is_batched() { BATCHES.len() } else { 1 };
        (1.0 + self.use_by_programs() / USUAL_USE) / batches as f64
    }

    /// How often programs compute such problems with any batch, beside others. Estimated: linear layers in 16 bits
    /// lead.
    pub(super) fn use_by_programs(self) -> f64 {
        let op = match self.op {
            Op::Mm | Op::Addmm => 4.0,
            Op::Bmm => 3.0,
            Op::Baddbmm => 1.5,
        };
        let dtype = match self.dtype {
            DType::BFloat16 => 4.0,
            DType::Float16 => 2.0,
            _ => 1.0,
        };
        let layout = if self.b_layout == Layout::Column { 2.0 } else { 1.0 };
        let alignment = if self.aligned { 3.0 } else { 1.0 };
        // Small N and K are those of odd programs.
        let usual = |bin: SizeBin| if bin.most() > 64 { 3.0 } else { 1.0 };
        op * dtype * layout * alignment * usual(self.n) * usual(self.k)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layout = if self.b_layout == Layout::Column { "B in columns" } else { "B in rows" };
        let alignment = if self.aligned { "aligned" } else { "unaligned" };
        write!(f, "{} {}, {layout}, {alignment}", self.op, self.dtype)?;
        if self.op.is_batched() {
            write!(f, ", B {}", self.b)?;
        }
        write!(f, ", M {}, N {}, K {}", self.m, self.n, self.k)
    }
}

/// Every kind that the plan knows, in a fixed order.
pub fn kinds() -> Vec<Kind> {
    let mut kinds = Vec::new();
    for &op in Op::ALL {
        let batches = if op.is_batched() { BATCHES } else { &[SizeBin::ONE] };
        for dtype in DTYPES {
            for &b_layout in Layout::ALL {
                for aligned in [true, false] {
                    for &b in batches {
                        // One to three rows of A are usual; so few columns or products are not.
                        for m in SizeBin::ALL {
                            for &n in &SizeBin::ALL[1..] {
                                for &k in &SizeBin::ALL[1..] {
                                    kinds.push(Kind { op, dtype, b_layout, aligned, b, m, n, k });
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    kinds
}
