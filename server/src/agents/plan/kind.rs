use std::fmt;

use diode_api::{Ability, SizeRange};
use diode_core::alignment::Alignment;
use diode_core::{DType, Layout, Op, Problem};

use super::size::SizeBin;

/// The types that the plan covers. People who need other types must measure such problems themselves.
pub(in crate::agents) const DTYPES: [DType; 3] = [DType::BFloat16, DType::Float16, DType::Float32];

/// The batches that the plan covers. A batch of 1 is left out: it is a multiplication without a batch.
pub(super) const BATCHES: &[SizeBin] = SizeBin::ALL.split_at(1).1.split_at(3).0;

/// The average of [`Kind::use_by_programs`] over operators, types, layouts and sizes.
pub(super) const USUAL_USE: f64 = 129.0;

/// A group of similar problems: one problem tells much about the others.
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
    /// `None` for problems that the plan does not cover.
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

    /// Whether devices with this ability can measure some problems of the kind.
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

    /// How soon the first problem of the kind comes, compared with other kinds. Half of the weight is the same for all
    /// operators, types, layouts and sizes: a model picks badly where it has seen few problems, and every kind is
    /// computed by somebody. The other half is how often programs compute such problems. The time of a problem does
    /// not count. When a plan put off long problems, more problems were measured in an hour, but models were worse for
    /// long problems and for fp32.
    pub(super) fn weight(self) -> f64 {
        let batches = if self.op.is_batched() { BATCHES.len() } else { 1 };
        (1.0 + self.use_by_programs() / USUAL_USE) / batches as f64
    }

    /// How often programs compute such problems with any batch, compared with other kinds. An estimate: linear layers
    /// in 16 bits come first.
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
        // Few programs have a small N or K.
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

/// Every kind that the plan covers, in a fixed order.
pub fn kinds() -> Vec<Kind> {
    let mut kinds = Vec::new();
    for &op in Op::ALL {
        let batches = if op.is_batched() { BATCHES } else { &[SizeBin::ONE] };
        for dtype in DTYPES {
            for &b_layout in Layout::ALL {
                for aligned in [true, false] {
                    for &b in batches {
                        // Programs often have one to three rows of A, but N and K are rarely so small.
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
