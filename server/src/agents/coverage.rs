//! How much of the plan is measured, in numbers and as a map.

use std::collections::{BTreeMap, HashSet};

use diode_api::{
    Ability, Coverage, CoverageCell, CoverageMapQuery, CoveragePart, PlannedProblem, Purpose, SizeRange,
};
use diode_core::hardware::Hardware;
use diode_core::{DType, Op, Problem, Scaling, is_kept};

use crate::agents::plan::{Kind, KnownProblems, Planner, kinds};
use crate::agents::planning::why;
use crate::agents::{ORDER, USUAL_SECONDS};
use crate::store::{NewWork, WorkFigures};

/// The kinds of the plan that a hardware can measure.
fn kinds_of(hardware: &Hardware) -> impl Iterator<Item = Kind> {
    let ability = Ability::of(hardware, u64::MAX);
    kinds().into_iter().filter(move |kind| kind.is_for(&ability))
}

/// How much of the plan has been measured, counted over the measured problems.
pub(crate) fn coverage(hardware: &Hardware, measured: &[Problem], figures: WorkFigures) -> Coverage {
    let mut parts: BTreeMap<_, CoveragePart> = BTreeMap::new();
    for Kind { op, dtype, scaling, .. } in kinds_of(hardware) {
        let part = CoveragePart { op, dtype, scaling, kinds: 0, covered: 0, problems: 0 };
        parts.entry((op, dtype, scaling)).or_insert(part).kinds += 1;
    }
    let mut covered = HashSet::new();
    for kind in measured.iter().filter_map(Kind::of) {
        let Some(part) = parts.get_mut(&(kind.op, kind.dtype, kind.scaling)) else { continue };
        part.problems += 1;
        part.covered += u64::from(covered.insert(kind));
    }
    let parts: Vec<CoveragePart> = parts.into_values().collect();
    Coverage {
        hardware: hardware.slug.clone(),
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

/// The part of the plan that a map shows: the first that is as asked for, or what was asked for if there is none.
pub(crate) fn shown(hardware: &Hardware, query: &CoverageMapQuery) -> (Op, DType, Scaling) {
    let CoverageMapQuery { op, dtype, scaling } = *query;
    let mut all = kinds_of(hardware).map(|kind| (kind.op, kind.dtype, kind.scaling));
    let is_asked = |kind: &(Op, DType, Scaling)| {
        op.is_none_or(|op| op == kind.0)
            && dtype.is_none_or(|dtype| dtype == kind.1)
            && scaling.is_none_or(|scaling| scaling == kind.2)
    };
    let asked = (op.unwrap_or(Op::Mm), dtype.unwrap_or(DType::BFloat16), scaling.unwrap_or(Scaling::None));
    all.find(is_asked).unwrap_or(asked)
}

/// How much of one operator, type and scaling has been measured, by M and N.
pub(crate) fn map(
    hardware: &Hardware,
    shown: (Op, DType, Scaling),
    measured: &[Problem],
) -> Vec<CoverageCell> {
    let mut cells: BTreeMap<(SizeRange, SizeRange), CoverageCell> = BTreeMap::new();
    let is_shown = |kind: &Kind| (kind.op, kind.dtype, kind.scaling) == shown;
    for kind in kinds_of(hardware).filter(is_shown) {
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
    let everything = Ability::of(hardware, u64::MAX);
    let known: KnownProblems = measured.iter().collect();
    let planner = Planner::new(hardware, &everything, USUAL_SECONDS, &known, &ORDER);
    planner.take(number).map(|next| described(next.problem, next.purpose, next.seconds)).collect()
}

#[cfg(test)]
mod map_tests {
    use diode_core::ProblemFields;
    use diode_core::hardware::find;
    use diode_core::problem::problems_in;

    use super::*;

    fn mm(m: u64, n: u64, k: u64) -> Problem {
        Problem::new(ProblemFields::plain(Op::Mm, 1, m, n, k, DType::BFloat16)).unwrap()
    }

    #[test]
    fn a_cell_counts_kinds_once_and_problems_each_time() {
        let hardware = find("nvidia-h200").unwrap();
        let map = |op, dtype, scaling, measured: &[Problem]| map(&hardware, (op, dtype, scaling), measured);
        let empty = map(Op::Mm, DType::BFloat16, Scaling::None, &[]);
        assert!(empty.len() == 56 && empty.iter().all(|cell| cell.kinds > 0 && cell.covered == 0));
        let measured = [mm(4096, 4096, 4096), mm(8192, 8192, 8192), mm(4096, 4096, 64), mm(1, 4096, 64)];
        let all = map(Op::Mm, DType::BFloat16, Scaling::None, &measured);
        let filled: Vec<CoverageCell> = all.into_iter().filter(|cell| cell.problems > 0).collect();
        let counts: Vec<_> =
            filled.iter().map(|cell| (cell.m.least, cell.n.least, cell.covered, cell.problems)).collect();
        assert_eq!(counts, [(1, 4096, 1, 1), (4096, 4096, 2, 3)]);
        assert_eq!(map(Op::Mm, DType::Int8, Scaling::None, &measured), []);
        let served = "moe 128x768x2048 top8 64 tokens fp8 block";
        let served = problems_in(served, DType::BFloat16).unwrap();
        let cells = map(Op::FusedMoe, DType::Float8E4M3, Scaling::Block, &served);
        let filled: Vec<CoverageCell> = cells.into_iter().filter(|cell| cell.problems > 0).collect();
        let counts: Vec<_> =
            filled.iter().map(|cell| (cell.m.least, cell.n.least, cell.covered, cell.problems)).collect();
        assert_eq!(counts, [(64, 1024, 2, 2)]);
        assert_eq!(map(Op::FusedMoe, DType::Float8E4M3, Scaling::Tensor, &served), []);
        assert_eq!(map(Op::FusedMoe, DType::Float8E4M3Fnuz, Scaling::Block, &served), []);
    }

    #[test]
    fn parts_are_those_that_the_hardware_measures_and_the_map_shows_the_first_that_was_asked_for() {
        let figures = WorkFigures::default;
        let of = |name| {
            let hardware = find(name).unwrap();
            let parts = coverage(&hardware, &[], figures()).parts;
            parts.into_iter().map(|part| (part.op, part.dtype, part.scaling)).collect::<HashSet<_>>()
        };
        let fp8 = |op, scaling| (op, DType::Float8E4M3, scaling);
        let (h200, a100) = (of("nvidia-h200"), of("nvidia-a100"));
        for part in [fp8(Op::ScaledMm, Scaling::Row), fp8(Op::FusedMoe, Scaling::Block)] {
            assert!(h200.contains(&part) && !a100.contains(&part), "{part:?}");
        }
        let both =
            [(Op::GroupedMm, DType::BFloat16, Scaling::None), (Op::ScaledMm, DType::Int8, Scaling::Row)];
        assert!(both.iter().all(|part| h200.contains(part) && a100.contains(part)));
        assert!(of("amd-mi300x").contains(&(Op::ScaledMm, DType::Float8E4M3Fnuz, Scaling::Row)));
        let shown = |op, dtype, scaling| {
            shown(&find("nvidia-h200").unwrap(), &CoverageMapQuery { op, dtype, scaling })
        };
        assert_eq!(shown(None, None, None), (Op::Mm, DType::BFloat16, Scaling::None));
        assert_eq!(shown(Some(Op::ScaledMm), None, Some(Scaling::Block)), fp8(Op::ScaledMm, Scaling::Block));
        assert_eq!(shown(Some(Op::FusedMoe), None, None), (Op::FusedMoe, DType::BFloat16, Scaling::None));
        let none = (Op::Mm, DType::Int8, Scaling::None);
        assert_eq!(shown(Some(Op::Mm), Some(DType::Int8), None), none);
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
