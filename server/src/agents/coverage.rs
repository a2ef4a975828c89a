use std::collections::{BTreeMap, HashSet};

use diode_api::{Coverage, CoveragePart};
use diode_core::ids::HardwareSlug;
use diode_core::{Problem, is_kept};

use super::plan::{Kind, kinds};
use crate::store::WorkFigures;

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
