//! What to measure next on a hardware. Pure: the same input and seed give the same plan.
//!
//! Problems are grouped by their [`Kind`]. First comes one problem of each kind of which nothing is known, then what
//! people want. Then come kinds for which models pick badly, results that a second contributor must confirm, and times
//! that another driver may have changed. Last come more problems of the kinds of which least is known. Kinds that
//! programs compute often tend to come before others. Here are the kinds, their sizes, and how long they take to measure.

mod planner;
mod served;
#[cfg(test)]
mod tests;

use std::fmt;

use diode_api::{Ability, Breadth, SizeRange};
use diode_core::alignment::Alignment;
use diode_core::hardware::{Facts, Hardware, Vendor, roofline};
use diode_core::kept::{hash, mix};
use diode_core::{DType, Layout, Op, Problem, Scaling, Stage};

use crate::agents::plan::planner::key;

pub use planner::KnownProblems;
pub use planner::weakest;
pub use planner::{FIRST_RANK, LAST_RANK, Planned, Planner, breadth_of, rank};

/// The types of plain multiplications that the plan covers. People who need other types must measure such problems
/// themselves.
const DTYPES: [DType; 3] = [DType::BFloat16, DType::Float16, DType::Float32];

/// The batches that the plan covers. A batch of 1 is left out: it is a multiplication without a batch.
const BATCHES: &[SizeBin] = SizeBin::ALL.split_at(1).1.split_at(3).0;

/// The weight of what models are served with. There are few such kinds: with this weight they are a quarter of the first
/// problems of a GPU that computes them all.
const SERVED_WEIGHT: f64 = 8.0;

/// The average of [`Kind::use_by_programs`] over operators, types, layouts and sizes.
const USUAL_USE: f64 = 129.0;

/// A group of similar problems: one problem tells much about the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    pub op: Op,
    pub dtype: DType,
    pub scaling: Scaling,
    pub stage: Option<Stage>,
    pub b_layout: Layout,
    /// Whether every row begins at a multiple of 16 bytes.
    pub aligned: bool,
    /// The batch, or the number of groups.
    b: SizeBin,
    m: SizeBin,
    n: SizeBin,
    k: SizeBin,
}

impl Kind {
    /// `None` for problems that the plan does not cover.
    pub fn of(problem: &Problem) -> Option<Self> {
        if !problem.op.is_plain() {
            return served::kind_of(problem);
        }
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
            scaling: Scaling::None,
            stage: None,
            b_layout: problem.b_layout,
            aligned: [alignment.a, alignment.b, alignment.out] == [Alignment::Bytes16; 3],
            b: SizeBin::of(problem.b)?,
            m: SizeBin::of(problem.m)?,
            n: SizeBin::of(problem.n)?,
            k: SizeBin::of(problem.k)?,
        })
    }

    /// Whether devices with this ability can measure some problems of the kind.
    pub(in crate::agents) fn is_for(self, ability: &Ability) -> bool {
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
    fn weight(self) -> f64 {
        if !self.op.is_plain() {
            return SERVED_WEIGHT;
        }
        let batches = if self.op.is_batched() { BATCHES.len() } else { 1 };
        (1.0 + self.use_by_programs() / USUAL_USE) / batches as f64
    }

    /// How often programs compute such problems with any batch, compared with other kinds. An estimate: linear layers
    /// in 16 bits come first.
    fn use_by_programs(self) -> f64 {
        let op = match self.op {
            Op::Mm | Op::Addmm => 4.0,
            Op::Bmm => 3.0,
            _ => 1.5,
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
        if !self.op.is_plain() {
            write!(f, "{} {}", self.op, self.dtype)?;
            if self.scaling != Scaling::None {
                write!(f, " scaled by {}", self.scaling)?;
            }
            if let Some(stage) = self.stage {
                write!(f, ", {stage}")?;
            }
            if self.op.is_grouped() {
                write!(f, ", {} groups", self.b)?;
            }
            return write!(f, ", M {}, N {}, K {}", self.m, self.n, self.k);
        }
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
    for op in Op::PLAIN {
        let batches = if op.is_batched() { BATCHES } else { &[SizeBin::ONE] };
        for dtype in DTYPES {
            for &b_layout in Layout::ALL {
                for aligned in [true, false] {
                    for &b in batches {
                        // Programs often have one to three rows of A, but N and K are rarely so small.
                        for m in SizeBin::ALL {
                            for &n in &SizeBin::ALL[1..] {
                                for &k in &SizeBin::ALL[1..] {
                                    let (scaling, stage) = (Scaling::None, None);
                                    kinds.push(Kind {
                                        op,
                                        dtype,
                                        scaling,
                                        stage,
                                        b_layout,
                                        aligned,
                                        b,
                                        m,
                                        n,
                                        k,
                                    });
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    kinds.extend(served::kinds());
    kinds
}

/// A bin of similar sizes: from 4ⁿ to 4ⁿ⁺¹ − 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct SizeBin(u8);

impl SizeBin {
    /// All bins. The last one ends at 65,535. There are no bins for larger sizes, because they are rare and kernels treat
    /// them all alike.
    const ALL: [Self; 8] = [Self(0), Self(1), Self(2), Self(3), Self(4), Self(5), Self(6), Self(7)];
    /// The bin of a batch of 1, for operators without a batch.
    const ONE: Self = Self(0);

    /// `None` for sizes beyond the last bin.
    fn of(size: u64) -> Option<Self> {
        let bin = size.checked_ilog2()? / 2;
        Self::ALL.get(bin as usize).copied()
    }

    /// The index in [`Self::ALL`].
    const fn place(self) -> usize {
        self.0 as usize
    }

    const fn least(self) -> u64 {
        4_u64.pow(self.0 as u32)
    }

    const fn most(self) -> u64 {
        4_u64.pow(self.0 as u32 + 1) - 1
    }
}

impl fmt::Display for SizeBin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}–{}", self.least(), self.most())
    }
}

/// Seconds that each problem takes besides its launches: to make the inputs, check the results and send them.
const PER_PROBLEM: f64 = 0.1;

/// Launches of a config on average. Most configs get few.
const LAUNCHES: f64 = 4.0;

/// The average time of a config, divided by the roofline.
const SLOWDOWN: f64 = 5.0;

/// Seconds that each launch takes in addition, including the flush of the cache.
const PER_LAUNCH: f64 = 50e-6;

/// The rates that are assumed for hardware without facts. They are the rates of a small device, so that a lease
/// is too short rather than too long.
const UNKNOWN_FLOPS: f64 = 1e11;
const UNKNOWN_BYTES: f64 = 1e10;

/// Configs in a GPU's sample: 200 that a model expects to be fast, 100 that are drawn at random, and the
/// default list.
const GPU_SAMPLE: f64 = 310.0;

/// How many seconds a device is expected to take for a problem.
pub fn expected_seconds(hardware: &Hardware, problem: &Problem, breadth: Breadth) -> f64 {
    seconds(hardware, launch(hardware, problem), breadth)
}

/// How many seconds one launch is expected to take on average.
fn launch(hardware: &Hardware, problem: &Problem) -> f64 {
    best_case(hardware.facts.as_ref(), problem) * SLOWDOWN + PER_LAUNCH
}

/// How many seconds a problem is expected to take, if each launch takes `launch` seconds.
fn seconds(hardware: &Hardware, launch: f64, breadth: Breadth) -> f64 {
    PER_PROBLEM + configs(hardware, breadth) * LAUNCHES * launch
}

fn best_case(facts: Option<&Facts>, problem: &Problem) -> f64 {
    let known = facts.and_then(|facts| roofline(facts, problem, false));
    known.map_or_else(
        || (problem.flops() / UNKNOWN_FLOPS).max(problem.bytes() / UNKNOWN_BYTES),
        |least| least.0 / 1e6,
    )
}

/// Roughly how many configs a device times. The exact number would take too long to find.
fn configs(hardware: &Hardware, breadth: Breadth) -> f64 {
    let cores = hardware.facts.map_or(1, |facts| facts.sms);
    match (hardware.vendor, breadth) {
        // 64 blocks for each number of threads, which is a power of two.
        (Vendor::Cpu, Breadth::Full) => 64.0 * f64::from(cores.ilog2().min(5) + 1),
        (Vendor::Cpu, Breadth::Sample) => (6.0 * f64::from(cores.ilog2().min(5) + 1)) + 100.0,
        (_, Breadth::Full) => 1534.0,
        (_, Breadth::Sample) => GPU_SAMPLE,
    }
}

/// The order in which kinds have their first turn. It is the same for all devices, so it is computed once.
pub struct Order {
    kinds: Vec<Kind>,
    seed: u64,
}

impl Order {
    /// A weighted shuffle: a kind with twice the weight comes first twice as often (Efraimidis and Spirakis).
    pub fn new(seed: u64) -> Self {
        let place = |kind: Kind| {
            // A number from 0 to 1, made of the highest 53 bits: a double holds that many.
            let random = (mix(key(kind, seed)) >> 11) as f64 / (1_u64 << 53) as f64;
            -random.max(f64::MIN_POSITIVE).ln() / kind.weight()
        };
        let mut placed: Vec<(f64, Kind)> = kinds().into_iter().map(|kind| (place(kind), kind)).collect();
        placed.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        Self { kinds: placed.into_iter().map(|(_, kind)| kind).collect(), seed }
    }

    fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// The seed of the order, and of the draws of every kind.
    fn seed(&self) -> u64 {
        self.seed
    }
}

/// A second contributor measures one in this many problems. If it measured all of them, agents would learn half as
/// much, only to confirm results that are nearly always right.
const ONE_IN: u64 = 4;

/// Makes the choice independent of other hashes of the same size.
const SALT: u64 = 0x636f_6e66;

/// Whether a second contributor must measure a problem wherever it stands on its board. Problems at the top of a
/// board are confirmed anyway.
pub fn is_to_be_confirmed(problem: &Problem) -> bool {
    let numbers =
        [SALT, problem.b, problem.m, problem.n, problem.k, problem.op as u64, problem.a_dtype as u64];
    hash(numbers).is_multiple_of(ONE_IN)
}
