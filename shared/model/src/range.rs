//! The range of a model's training problems. Outside of it, the model extrapolates.

use diode_core::{Alignment, DType, Layout, Op, Problem};
use serde::{Deserialize, Serialize};

/// By which factor a size may lie outside the training sizes and still count as inside.
const MARGIN: u64 = 2;
/// The same for the number of operations. If each size grows by [`MARGIN`], the operations grow by this.
const WORK_MARGIN: u64 = MARGIN.pow(3);

/// A kind of problem, for which kernels are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProblemKind {
    pub op: Op,
    pub dtype: DType,
    pub a_layout: Layout,
    pub b_layout: Layout,
    /// Whether all rows are multiples of 16 bytes.
    pub aligned: bool,
}

impl ProblemKind {
    pub fn of(problem: &Problem) -> Self {
        let rows = problem.alignment();
        Self {
            op: problem.op,
            dtype: problem.a_dtype,
            a_layout: problem.a_layout,
            b_layout: problem.b_layout,
            aligned: [rows.a, rows.b, rows.out].iter().all(|&rows| rows == Alignment::Bytes16),
        }
    }
}

impl std::fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let letter = |layout| if layout == Layout::Row { "n" } else { "t" };
        let Self { op, dtype, a_layout, b_layout, aligned } = *self;
        write!(f, "{op} in {dtype} ({}{}", letter(a_layout), letter(b_layout))?;
        f.write_str(if aligned { ")" } else { ", unaligned rows)" })
    }
}

/// The kinds and sizes of the training problems.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrainingRange {
    /// The kinds, in order.
    pub kinds: Vec<ProblemKind>,
    /// The least and the greatest M.
    pub m: (u64, u64),
    pub n: (u64, u64),
    pub k: (u64, u64),
    /// The greatest number of floating-point operations. `None` in files from before it was stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flops: Option<u64>,
}

impl TrainingRange {
    /// The range of some problems; `None` if there are none.
    pub fn of<'a>(problems: impl Iterator<Item = &'a Problem>) -> Option<Self> {
        let mut range: Option<Self> = None;
        for problem in problems {
            let range = range.get_or_insert_with(|| Self {
                kinds: Vec::new(),
                m: (problem.m, problem.m),
                n: (problem.n, problem.n),
                k: (problem.k, problem.k),
                flops: None,
            });
            if let Err(place) = range.kinds.binary_search(&ProblemKind::of(problem)) {
                range.kinds.insert(place, ProblemKind::of(problem));
            }
            let sides = [(&mut range.m, problem.m), (&mut range.n, problem.n), (&mut range.k, problem.k)];
            for (side, size) in sides {
                *side = (side.0.min(size), side.1.max(size));
            }
            range.flops = range.flops.max(Some(problem.flops() as u64));
        }
        range
    }

    /// Whether models of such training problems were judged on this kind. Models that had learnt mm in float32 but no
    /// addmm were judged on addmm in float32, on two GPUs, and picked well. So did models that had learnt unaligned rows in
    /// bfloat16 alone, in float16: no feature tells these two types apart.
    fn knows(&self, kind: ProblemKind) -> bool {
        let like_mm = kind.op == Op::Addmm && kind.dtype == DType::Float32;
        let like_bfloat16 = kind.dtype == DType::Float16;
        let mut judged = vec![kind];
        judged.extend(like_mm.then_some(ProblemKind { op: Op::Mm, ..kind }));
        judged.extend(like_bfloat16.then_some(ProblemKind { dtype: DType::BFloat16, ..kind }));
        self.kinds.iter().any(|known| judged.contains(known))
    }

    /// Says in words how a problem is outside of the range; `None` if it is inside.
    pub fn outside(&self, problem: &Problem) -> Option<String> {
        let kind = ProblemKind::of(problem);
        if !self.knows(kind) {
            return Some(kind.to_string());
        }
        let sides = [("M", self.m, problem.m), ("N", self.n, problem.n), ("K", self.k, problem.k)];
        let beyond = sides.into_iter().find_map(|(name, (least, greatest), size)| {
            if size > greatest.saturating_mul(MARGIN) {
                Some(format!(
                    "{name} = {size}, which is larger than what it was trained on (up to {greatest}),"
                ))
            } else if size < least / MARGIN {
                Some(format!("{name} = {size}, which is smaller than what it was trained on (from {least}),"))
            } else {
                None
            }
        });
        beyond.or_else(|| {
            let greatest = self.flops?;
            (problem.flops() as u64 > greatest.saturating_mul(WORK_MARGIN)).then(|| {
                let times = problem.flops() / greatest as f64;
                format!("{times:.0} times the operations of the largest problem that it was trained on,")
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use diode_core::ProblemFields;

    use super::*;

    fn problem(m: u64, n: u64, dtype: DType) -> Problem {
        Problem::new(ProblemFields::plain(Op::Mm, 1, m, n, 512, dtype)).unwrap()
    }

    #[test]
    fn kinds_and_sizes_beyond_the_data_are_named() {
        let seen = [problem(16, 64, DType::BFloat16), problem(2048, 4096, DType::BFloat16)];
        let range = TrainingRange::of(seen.iter()).unwrap();
        assert_eq!((range.m, range.n, range.k), ((16, 2048), (64, 4096), (512, 512)));
        assert_eq!(range.outside(&problem(4096, 256, DType::BFloat16)), None);
        let outside = |problem| range.outside(&problem).unwrap();
        assert_eq!(
            outside(problem(4104, 256, DType::BFloat16)),
            "M = 4104, which is larger than what it was trained on (up to 2048),"
        );
        assert_eq!(
            outside(problem(7, 256, DType::BFloat16)),
            "M = 7, which is smaller than what it was trained on (from 16),"
        );
        assert_eq!(outside(problem(64, 256, DType::Float32)), "mm in float32 (nn)");
        assert_eq!(outside(problem(64, 257, DType::BFloat16)), "mm in bfloat16 (nn, unaligned rows)");
    }

    #[test]
    fn in_float32_who_knows_mm_knows_addmm() {
        let of = |op, dtype| Problem::new(ProblemFields::plain(op, 1, 256, 256, 512, dtype)).unwrap();
        let range =
            TrainingRange::of([DType::Float32, DType::BFloat16].map(|dtype| of(Op::Mm, dtype)).iter())
                .unwrap();
        assert_eq!(range.outside(&of(Op::Addmm, DType::Float32)), None);
        assert_eq!(range.outside(&of(Op::Addmm, DType::BFloat16)).unwrap(), "addmm in bfloat16 (nn)");
        assert_eq!(range.outside(&of(Op::Bmm, DType::Float32)).unwrap(), "bmm in float32 (nn)");
        let range = TrainingRange::of([of(Op::Addmm, DType::Float32)].iter()).unwrap();
        assert_eq!(range.outside(&of(Op::Mm, DType::Float32)).unwrap(), "mm in float32 (nn)");
    }

    #[test]
    fn who_knows_bfloat16_knows_float16() {
        let of = |n, dtype| problem(256, n, dtype);
        let range = TrainingRange::of([of(257, DType::BFloat16), of(256, DType::Float16)].iter()).unwrap();
        assert_eq!(range.outside(&of(257, DType::Float16)), None);
        assert_eq!(range.outside(&of(256, DType::BFloat16)).unwrap(), "mm in bfloat16 (nn)");
    }

    #[test]
    fn a_problem_with_known_sizes_can_be_far_too_large() {
        let seen = [problem(16, 4096, DType::BFloat16), problem(4096, 16, DType::BFloat16)];
        let range = TrainingRange::of(seen.iter()).unwrap();
        assert_eq!(range.flops, Some(2 * 16 * 4096 * 512));
        assert_eq!(range.outside(&problem(128, 4096, DType::BFloat16)), None);
        let beyond = "256 times the operations of the largest problem that it was trained on,";
        assert_eq!(range.outside(&problem(4096, 4096, DType::BFloat16)).unwrap(), beyond);
        let older = TrainingRange { flops: None, ..range };
        assert_eq!(older.outside(&problem(4096, 4096, DType::BFloat16)), None);
    }
}
