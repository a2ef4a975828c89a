//! What a model's file states about the model.

use diode_api::EvaluationReport;
use diode_core::hardware::Hardware;
use diode_core::ids::{Digest, HardwareSlug};
use diode_core::{Alignment, DType, Heuristic, Invalid, Layout, Method, Op, Problem, ProblemGroup};
use serde::{Deserialize, Serialize};

use crate::ModelError;
use crate::features::FEATURE_SET;

/// What a model's file states about the model, as a JSON document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    pub heuristic: Heuristic,
    /// The hardware that the model predicts for. Its facts are inputs of every prediction.
    pub hardware: Hardware,
    /// The hardware that the model was trained on, if it only stands in for another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands_in_from: Option<HardwareSlug>,
    /// The operators in the training data.
    pub ops: Vec<Op>,
    /// The input types in the training data.
    pub dtypes: Vec<DType>,
    /// The features that the weights were trained on: `physics/5`.
    pub feature_set: String,
    pub training: Training,
    /// Another method whose times the model has learnt, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_method: Option<Method>,
    /// The sizes and kinds of the training problems; `None` if they are not known.
    #[serde(default)]
    pub range: Option<TrainingRange>,
    /// Figures for problems that the model was not trained on, if they were measured.
    #[serde(default)]
    pub evaluation: Option<EvaluationReport>,
    /// The confidence in the picks, by problem group. It was measured on problems that the model
    /// was not trained on.
    #[serde(default)]
    pub confidence: Vec<GroupConfidence>,
    /// The factor for the predicted times of picks. A pick has the shortest of many predicted
    /// times, so its predicted time is too short on average.
    pub pick_bias: f64,
    /// The factor for the library's predicted time before it is compared with a config's. It
    /// balances the cost of wrongly picking the library against the cost of wrongly picking a
    /// config.
    #[serde(default = "one")]
    pub library_handicap: f64,
}

fn one() -> f64 {
    1.0
}

/// How a model was trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Training {
    pub data_digest: Digest,
    pub problems: u64,
    pub timings: u64,
    /// The method of the times that the model predicts.
    pub method: Method,
    /// Other hardware whose timings the model has learnt from, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<HardwareSlug>,
    pub seed: u64,
    /// When the model was trained, as RFC 3339.
    pub created_at: String,
    /// The program that trained the model: `diode 0.1.0`.
    pub tool: String,
    /// Whether the problems that are kept for judging were left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_kept: bool,
    /// The loss of each epoch of the model's network, in order. Older files do not state it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<f64>,
    /// The sizes of the problems, as [`mark_of_size`](diode_core::mark_of_size), in order. Older files do not state them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<u32>,
}

/// No training that converges has a larger loss.
const MOST_LOSS: f64 = 1e6;

impl Metadata {
    /// Checks metadata that came from outside.
    pub(crate) fn validate(&self) -> Result<(), ModelError> {
        if self.feature_set != FEATURE_SET {
            return Err(ModelError::UnknownFeatureSet {
                given: self.feature_set.clone(),
                expected: FEATURE_SET,
            });
        }
        self.hardware.validate()?;
        if self.hardware.facts.is_none() {
            return Err(ModelError::NoFacts { hardware: self.hardware.slug.clone() });
        }
        for (name, factor) in [("pick_bias", self.pick_bias), ("library_handicap", self.library_handicap)] {
            if !(factor.is_finite() && factor > 0.0) {
                return Err(Invalid::new(name, factor, "a finite factor above 0").into());
            }
        }
        if let Some(loss) = self.training.losses.iter().find(|loss| !(0.0..=MOST_LOSS).contains(*loss)) {
            return Err(Invalid::new("losses", loss, format!("from 0 to {MOST_LOSS}")).into());
        }
        self.confidence.iter().try_for_each(GroupConfidence::validate)?;
        Ok(())
    }
}

/// The confidence in the picks for a group of problems.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupConfidence {
    pub group: ProblemGroup,
    /// On how many problems it was measured.
    pub problems: u64,
    /// For rising numbers of picks: how likely the best of these picks is within 5 % of the best config.
    pub within_5_percent: Vec<(u32, f64)>,
    /// The measured time of the first pick / its predicted time, after all corrections. For four problems in
    /// five, it lies between these two values.
    pub time_range: (f64, f64),
}

/// Why no number of picks has a wanted probability.
#[derive(Debug, Clone, PartialEq)]
pub enum Unsure {
    /// Nobody has measured how good picks are for such a problem, for this reason if one is known.
    Unmeasured { why: Option<String> },
    /// The most picks that were judged have this probability.
    OutOfReach { most: f64, group: ProblemGroup },
}

impl GroupConfidence {
    pub(crate) fn validate(&self) -> Result<(), Invalid> {
        let mut shares = self.within_5_percent.iter().map(|(_, share)| share);
        if let Some(share) = shares.find(|share| !(0.0..=1.0).contains(*share)) {
            return Err(Invalid::new("within_5_percent", share, "a share from 0 to 1"));
        }
        let (low, high) = self.time_range;
        if !(low > 0.0 && low <= high && high.is_finite()) {
            return Err(Invalid::new(
                "time_range",
                format_args!("{low} to {high}"),
                "two factors above 0, the lower one first",
            ));
        }
        Ok(())
    }

    /// The least number of picks that contain a config within 5 % of the best with at least this
    /// probability. `None` if no number that was judged reaches it.
    pub(crate) fn picks_for(&self, probability: f64) -> Option<u32> {
        self.within_5_percent.iter().find(|(_, share)| *share >= probability).map(|(picks, _)| *picks)
    }
}

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
    pub fn for_problem(problem: &Problem) -> Self {
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
    pub fn from_problems<'a>(problems: impl Iterator<Item = &'a Problem>) -> Option<Self> {
        let mut range: Option<Self> = None;
        for problem in problems {
            let range = range.get_or_insert_with(|| Self {
                kinds: Vec::new(),
                m: (problem.m, problem.m),
                n: (problem.n, problem.n),
                k: (problem.k, problem.k),
                flops: None,
            });
            if let Err(place) = range.kinds.binary_search(&ProblemKind::for_problem(problem)) {
                range.kinds.insert(place, ProblemKind::for_problem(problem));
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
        let kind = ProblemKind::for_problem(problem);
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
mod confidence_tests {
    use super::*;

    #[test]
    fn more_certainty_takes_more_picks() {
        let confidence = GroupConfidence {
            group: ProblemGroup::Rest,
            problems: 100,
            within_5_percent: vec![(1, 0.85), (3, 0.95), (5, 0.98), (8, 0.99)],
            time_range: (0.9, 1.1),
        };
        assert_eq!(
            [0.5, 0.9, 0.95, 0.97, 0.995].map(|p| confidence.picks_for(p)),
            [Some(1), Some(3), Some(3), Some(5), None]
        );
        assert!(confidence.validate().is_ok());
        assert!(GroupConfidence { time_range: (1.1, 0.9), ..confidence }.validate().is_err());
    }
}

#[cfg(test)]
mod range_tests {
    use diode_core::ProblemFields;

    use super::*;

    fn problem(m: u64, n: u64, dtype: DType) -> Problem {
        Problem::new(ProblemFields::plain(Op::Mm, 1, m, n, 512, dtype)).unwrap()
    }

    #[test]
    fn kinds_and_sizes_beyond_the_data_are_named() {
        let seen = [problem(16, 64, DType::BFloat16), problem(2048, 4096, DType::BFloat16)];
        let range = TrainingRange::from_problems(seen.iter()).unwrap();
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
        let range = TrainingRange::from_problems(
            [DType::Float32, DType::BFloat16].map(|dtype| of(Op::Mm, dtype)).iter(),
        )
        .unwrap();
        assert_eq!(range.outside(&of(Op::Addmm, DType::Float32)), None);
        assert_eq!(range.outside(&of(Op::Addmm, DType::BFloat16)).unwrap(), "addmm in bfloat16 (nn)");
        assert_eq!(range.outside(&of(Op::Bmm, DType::Float32)).unwrap(), "bmm in float32 (nn)");
        let range = TrainingRange::from_problems([of(Op::Addmm, DType::Float32)].iter()).unwrap();
        assert_eq!(range.outside(&of(Op::Mm, DType::Float32)).unwrap(), "mm in float32 (nn)");
    }

    #[test]
    fn who_knows_bfloat16_knows_float16() {
        let of = |n, dtype| problem(256, n, dtype);
        let range =
            TrainingRange::from_problems([of(257, DType::BFloat16), of(256, DType::Float16)].iter()).unwrap();
        assert_eq!(range.outside(&of(257, DType::Float16)), None);
        assert_eq!(range.outside(&of(256, DType::BFloat16)).unwrap(), "mm in bfloat16 (nn)");
    }

    #[test]
    fn a_problem_with_known_sizes_can_be_far_too_large() {
        let seen = [problem(16, 4096, DType::BFloat16), problem(4096, 16, DType::BFloat16)];
        let range = TrainingRange::from_problems(seen.iter()).unwrap();
        assert_eq!(range.flops, Some(2 * 16 * 4096 * 512));
        assert_eq!(range.outside(&problem(128, 4096, DType::BFloat16)), None);
        let beyond = "256 times the operations of the largest problem that it was trained on,";
        assert_eq!(range.outside(&problem(4096, 4096, DType::BFloat16)).unwrap(), beyond);
        let older = TrainingRange { flops: None, ..range };
        assert_eq!(older.outside(&problem(4096, 4096, DType::BFloat16)), None);
    }
}
