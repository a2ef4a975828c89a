//! The map of measured problems by size.

use std::collections::BTreeMap;

use diode_api::{ProblemFilter, SizeCell, SizeClass, SizeMap, SizeRange};
use diode_core::Method;
use diode_core::stats::geometric_mean;

/// What the map needs of a problem.
#[derive(Debug, Clone, PartialEq)]
pub struct SizedProblem {
    pub m: u64,
    pub n: u64,
    pub k: u64,
    /// The tile of the best Triton config.
    pub tile: Option<[u32; 3]>,
    pub triton_over_library: Option<f64>,
}

/// The class of a size: all sizes within a factor of √2 of the power of two that is nearest to it.
fn class(size: u64) -> SizeRange {
    // Squares are compared, so that the result is exact.
    let square = u128::from(size) * u128::from(size);
    let power = (0..63).find(|power| square < 1 << (2 * power + 1)).unwrap_or(63);
    let root = |power: u32| (1u128 << power).isqrt() as u64;
    SizeRange { least: if power == 0 { 1 } else { root(2 * power - 1) + 1 }, most: root(2 * power + 1) }
}

/// The map of the problems that pass the filter. `problems` have passed every condition of the filter except
/// its range of K.
pub(crate) fn size_map(problems: &[SizedProblem], filter: &ProblemFilter, method: Method) -> SizeMap {
    let mut depths: BTreeMap<SizeRange, u64> = BTreeMap::new();
    let mut cells: BTreeMap<(SizeRange, SizeRange), Vec<&SizedProblem>> = BTreeMap::new();
    for problem in problems {
        *depths.entry(class(problem.k)).or_default() += 1;
        let is_wanted = filter.min_k.is_none_or(|least| problem.k >= least)
            && filter.max_k.is_none_or(|most| problem.k <= most);
        if is_wanted {
            cells.entry((class(problem.m), class(problem.n))).or_default().push(problem);
        }
    }
    SizeMap {
        method,
        depths: depths.into_iter().map(|(k, problems)| SizeClass { k, problems }).collect(),
        cells: cells.into_iter().map(|((m, n), problems)| cell(m, n, &problems)).collect(),
    }
}

fn cell(m: SizeRange, n: SizeRange, problems: &[&SizedProblem]) -> SizeCell {
    let ratios: Vec<f64> = problems.iter().filter_map(|problem| problem.triton_over_library).collect();
    let mut tiles: BTreeMap<[u32; 3], u64> = BTreeMap::new();
    for tile in problems.iter().filter_map(|problem| problem.tile) {
        *tiles.entry(tile).or_default() += 1;
    }
    // If two tiles win equally often, the smaller one counts.
    let winner = tiles.into_iter().rev().max_by_key(|(_, wins)| *wins);
    SizeCell {
        m,
        n,
        problems: problems.len() as u64,
        compared: ratios.len() as u64,
        triton_over_library: geometric_mean(&ratios),
        tile: winner.map(|(tile, _)| tile),
        tile_problems: winner.map_or(0, |(_, wins)| wins),
    }
}

#[cfg(test)]
mod size_map_tests {
    use super::*;

    #[test]
    fn classes_meet_between_the_powers_of_two() {
        let of = |size| {
            let SizeRange { least, most } = class(size);
            (least, most)
        };
        assert_eq!([of(1), of(2), of(3), of(5), of(6)], [(1, 1), (2, 2), (3, 5), (3, 5), (6, 11)]);
        assert_eq!((of(4096), of(5792), of(5793)), ((2897, 5792), (2897, 5792), (5793, 11_585)));
        for size in 1..5_000 {
            let (least, most) = of(size);
            assert!(least <= size && size <= most && of(most + 1).0 == most + 1, "{size}");
        }
    }

    #[test]
    fn a_cell_has_the_mean_ratio_and_the_tile_that_wins_most_often() {
        let problem = |m, k, tile, ratio| SizedProblem { m, n: 512, k, tile, triton_over_library: ratio };
        let (small, large) = (Some([64, 64, 64]), Some([128, 256, 64]));
        let problems = [
            problem(1000, 64, large, Some(2.0)),
            problem(1024, 64, small, Some(0.5)),
            problem(1100, 64, large, None),
            problem(16, 64, None, None),
            problem(1024, 4096, small, Some(1.1)),
        ];
        let filter = ProblemFilter { max_k: Some(90), ..ProblemFilter::default() };
        let map = size_map(&problems, &filter, Method::MEDIAN_COLD_EVENT);
        assert_eq!(map.depths.iter().map(|class| class.problems).collect::<Vec<_>>(), [4, 1]);
        let [narrow, wide] = &map.cells[..] else { panic!("{map:?}") };
        assert_eq!((narrow.problems, narrow.compared, narrow.triton_over_library), (1, 0, None));
        assert_eq!((narrow.tile, narrow.tile_problems), (None, 0));
        assert_eq!((wide.problems, wide.compared, wide.triton_over_library), (3, 2, Some(1.0)));
        assert_eq!((wide.tile, wide.tile_problems), (large, 2));
        assert_eq!((wide.m, wide.n), (class(1024), class(512)));
    }
}
