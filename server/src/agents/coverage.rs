//! How much of the plan is measured, in numbers and as a map.

use std::collections::{BTreeMap, HashSet};

use diode_api::{Ability, Coverage, CoverageCell, CoveragePart, PlannedProblem, Purpose, SizeRange};
use diode_core::hardware::Hardware;
use diode_core::ids::HardwareSlug;
use diode_core::{DType, Layout, Op, Problem, is_kept};

use crate::agents::plan::{DTYPES, Kind, KnownProblems, Planner, kinds};
use crate::agents::planning::why;
use crate::agents::{ORDER, USUAL_SECONDS};
use crate::store::{NewWork, WorkFigures};

/// How much of the plan has been measured, counted over the measured problems.
pub(crate) fn coverage(hardware: HardwareSlug, measured: &[Problem], figures: WorkFigures) -> Coverage {
    let mut parts: BTreeMap<_, CoveragePart> = BTreeMap::new();
    for Kind { op, dtype, .. } in kinds() {
        let part = CoveragePart { op, dtype, kinds: 0, covered: 0, problems: 0 };
        parts.entry((op, dtype)).or_insert(part).kinds += 1;
    }
    let mut covered = HashSet::new();
    for kind in measured.iter().filter_map(Kind::of) {
        let Some(part) = parts.get_mut(&(kind.op, kind.dtype)) else { continue };
        part.problems += 1;
        part.covered += u64::from(covered.insert(kind));
    }
    let parts: Vec<CoveragePart> = parts.into_values().collect();
    Coverage {
        hardware,
        kinds: parts.iter().map(|part| part.kinds).sum(),
        covered: parts.iter().map(|part| part.covered).sum(),
        problems: measured.len() as u64,
        kept: measured.iter().filter(|problem| is_kept(problem)).count() as u64,
        confirmed: figures.confirmed,
        waiting: figures.waiting,
        leased: figures.leased,
        parts,
    }
}

/// How much of one operator and type has been measured, by M and N.
pub(crate) fn map(op: Op, dtype: DType, measured: &[Problem]) -> Vec<CoverageCell> {
    let mut cells: BTreeMap<(SizeRange, SizeRange), CoverageCell> = BTreeMap::new();
    let is_shown = |kind: &Kind| (kind.op, kind.dtype) == (op, dtype);
    for kind in kinds().iter().filter(|kind| is_shown(kind)) {
        let (m, n) = kind.sides();
        let empty = CoverageCell { m, n, kinds: 0, covered: 0, problems: 0 };
        cells.entry((m, n)).or_insert(empty).kinds += 1;
    }
    let mut covered = HashSet::new();
    for kind in measured.iter().filter_map(Kind::of).filter(is_shown) {
        let Some(cell) = cells.get_mut(&kind.sides()) else { continue };
        cell.problems += 1;
        cell.covered += u64::from(covered.insert(kind));
    }
    cells.into_values().collect()
}

/// What agents get next: the work that waits or, if none does, what the plan takes for a device that can
/// measure everything.
pub(crate) fn next(
    hardware: &Hardware,
    waiting: Vec<NewWork>,
    measured: Vec<Problem>,
    number: usize,
) -> Vec<PlannedProblem> {
    let described = |problem: Problem, purpose: Purpose, seconds| PlannedProblem {
        why: why(&problem, purpose),
        problem,
        purpose,
        seconds,
    };
    if !waiting.is_empty() {
        return waiting.into_iter().map(|work| described(work.problem, work.purpose, work.seconds)).collect();
    }
    let everything = Ability {
        ops: Op::PLAIN.to_vec(),
        dtypes: DTYPES.to_vec(),
        layouts: Layout::ALL.to_vec(),
        unaligned: true,
        memory_bytes: u64::MAX,
        variants: None,
    };
    let known: KnownProblems = measured.iter().collect();
    let planner = Planner::new(hardware, &everything, USUAL_SECONDS, &known, &ORDER);
    planner.take(number).map(|next| described(next.problem, next.purpose, next.seconds)).collect()
}

#[cfg(test)]
mod map_tests {
    use diode_core::ProblemFields;
    use diode_core::hardware::find;

    use super::*;

    fn mm(m: u64, n: u64, k: u64) -> Problem {
        Problem::new(ProblemFields::plain(Op::Mm, 1, m, n, k, DType::BFloat16)).unwrap()
    }

    #[test]
    fn a_cell_counts_kinds_once_and_problems_each_time() {
        let empty = map(Op::Mm, DType::BFloat16, &[]);
        assert!(empty.len() == 56 && empty.iter().all(|cell| cell.kinds > 0 && cell.covered == 0));
        let measured = [mm(4096, 4096, 4096), mm(8192, 8192, 8192), mm(4096, 4096, 64), mm(1, 4096, 64)];
        let filled: Vec<CoverageCell> =
            map(Op::Mm, DType::BFloat16, &measured).into_iter().filter(|cell| cell.problems > 0).collect();
        let counts: Vec<_> =
            filled.iter().map(|cell| (cell.m.least, cell.n.least, cell.covered, cell.problems)).collect();
        assert_eq!(counts, [(1, 4096, 1, 1), (4096, 4096, 2, 3)]);
        assert_eq!(map(Op::Mm, DType::Int8, &measured), []);
    }

    #[test]
    fn what_waits_comes_before_what_will_be_planned() {
        let hardware = find("nvidia-h200").unwrap();
        let planned = next(&hardware, Vec::new(), Vec::new(), 5);
        assert!(planned.len() == 5 && planned.iter().all(|next| next.purpose == Purpose::Hole));
        let breadth = crate::agents::plan::breadth_of(&mm(1, 64, 64));
        let work = NewWork { problem: mm(1, 64, 64), purpose: Purpose::Wanted, breadth, seconds: 1.0 };
        let waiting = next(&hardware, vec![work], Vec::new(), 5);
        assert_eq!((waiting.len(), waiting[0].purpose), (1, Purpose::Wanted));
    }
}
