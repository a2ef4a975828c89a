//! Round trips of arbitrary datasets.

use diode_core::{
    Config, ConfigIndex, Dataset, Failure, FailureReason, Layout, Method, Op, OutputLayout, Problem,
    ProblemFields, Solution, Tile, TimeColumn,
};
use diode_formats::stored::{Columns, decode_columns, encode_columns};
use diode_formats::{Format, SolutionDigests, content_digest, encode, reduce, solution_digest};
use proptest::prelude::*;

use crate::round_trips::{assert_same, reread};
use crate::samples::{golden, problem, rich, solution};

prop_compose! {
    fn any_times()(
        nanos in prop::collection::vec(1..3_600_000_000_000_u64, 0..40),
        millis in prop::collection::vec(1e-6..3.6e6_f64, 0..40),
        whole: bool,
    ) -> TimeColumn {
        if whole { TimeColumn::from_nanos(nanos).unwrap() } else { TimeColumn::from_millis(millis).unwrap() }
    }
}

prop_compose! {
    fn any_columns()(
        times in any_times(),
        minimum: bool,
        spread in any::<Option<u64>>(),
        repeats in any::<Option<u32>>(),
        failures in prop::collection::vec(
            (any::<u32>(), prop::sample::select(FailureReason::ALL)), 0..10,
        ),
    ) -> Columns {
        let rows = times.len();
        Columns {
            minimum_ns: minimum
                .then(|| (0..rows).map(|row| (times.nanos(row).0.ceil() as u64).saturating_sub(row as u64).max(1)).collect()),
            times,
            spread_ns: spread.map(|seed| (0..rows as u64).map(|row| seed.wrapping_mul(row)).collect()),
            repeats: repeats.map(|seed| (0..rows as u32).map(|row| seed.wrapping_mul(row)).collect()),
            failures,
        }
    }
}

prop_compose! {
    /// A solution with everything that our own formats hold.
    fn any_solution()(
        columns in any_columns(),
        (op, b_layout, method) in (
            prop::sample::select(&Op::PLAIN),
            prop::sample::select(Layout::ALL),
            prop::sample::select(&[Method::Unspecified, Method::MEDIAN_COLD_EVENT, Method::MEDIAN_WARM_WALL]),
        ),
        sizes in (1..9_u64, 1..9_u64, 1..9_u64),
        out in prop::option::of(([1..=Problem::MAX_DIM, 1..=Problem::MAX_DIM, 1..=Problem::MAX_DIM], any::<[u64; 3]>())),
    ) -> Solution {
        let plain = problem(op, sizes.0, sizes.1, sizes.2).into_fields();
        let out_layout = out.map(|(size, stride)| OutputLayout { size, stride });
        Solution {
            problem: Problem::new(ProblemFields { b_layout, out_layout, ..plain }).unwrap(),
            method,
            configs: (0..columns.times.len() as u32).map(|row| ConfigIndex(row % CONFIGS)).collect(),
            times: columns.times,
            minimum_ns: columns.minimum_ns,
            spread_ns: columns.spread_ns,
            repeats: columns.repeats,
            failures: columns
                .failures
                .into_iter()
                .map(|(config, reason)| Failure { config: ConfigIndex(config % CONFIGS), reason })
                .collect(),
        }
    }
}

/// The number of configs in the datasets of `any_solution`.
const CONFIGS: u32 = 7;

proptest! {
    #[test]
    fn our_own_formats_hold_everything(solutions in prop::collection::vec(any_solution(), 1..6)) {
        let mut dataset = rich().remove(2);
        prop_assert_eq!(dataset.configs.len(), CONFIGS as usize);
        dataset.solutions = solutions;
        let whole = [dataset];
        prop_assert_eq!(&reread(&encode(Format::Columnar, &whole).unwrap()).datasets, &whole);
        let mut kept = reduce(Format::Csv, &whole).datasets;
        // A solution without timings has no rows for these columns, so they are not kept.
        for solution in kept[0].solutions.iter_mut().filter(|solution| solution.configs.is_empty()) {
            solution.minimum_ns = None;
            solution.spread_ns = None;
            solution.repeats = None;
            solution.times = TimeColumn::Nanos(Vec::new());
        }
        if kept[0].solutions.is_empty() {
            return Ok(());
        }
        for format in [Format::Csv, Format::Parquet] {
            assert_same(&reread(&encode(format, &kept).unwrap()).datasets, &kept);
        }
    }

    #[test]
    fn stored_columns_round_trip(columns in any_columns()) {
        prop_assert_eq!(decode_columns(&encode_columns(&columns)).unwrap(), columns);
    }

    #[test]
    fn every_dataset_of_torch_diodes_format_converts_without_loss(
        times in prop::collection::vec((any_times(), 1..5000_u64), 0..5),
    ) {
        let tiles = (0..40_u32).map(|i| Tile { group_m: i + 1, ..Tile::new(64, 64, 32, 3, 4) });
        let solutions = times.into_iter().enumerate().map(|(i, (times, m))| {
            let configs: Vec<u32> = (0..times.len() as u32).collect();
            let problem = problem(Op::Baddbmm, m, i as u64 + 1, 8);
            Solution { times, ..solution(problem, &configs, &vec![1.0; configs.len()]) }
        });
        let dataset = Dataset {
            configs: tiles.map(Config::Bmm).collect(),
            solutions: solutions.collect(),
            ..golden()
        };
        let digest = content_digest(std::slice::from_ref(&dataset));
        for format in Format::ALL {
            let rows = matches!(format, Format::Csv | Format::Parquet);
            let without_empty = reduce(Format::Csv, std::slice::from_ref(&dataset)).datasets;
            let dataset = if rows { &without_empty[0] } else { &dataset };
            let decoded = reread(&encode(format, std::slice::from_ref(dataset)).unwrap()).datasets;
            if rows && dataset.solutions.is_empty() {
                prop_assert!(decoded.is_empty());
                continue;
            }
            let digest = if rows { content_digest(&without_empty) } else { digest.clone() };
            prop_assert_eq!(content_digest(&decoded), digest);
            let slug = &dataset.hardware.slug;
            let mut digests = SolutionDigests::new(slug, &dataset.configs);
            for (before, after) in dataset.solutions.iter().zip(&decoded[0].solutions) {
                prop_assert_eq!(&before.times, &after.times);
                prop_assert_eq!(digests.of(before), solution_digest(slug, before, &dataset.configs));
                prop_assert_eq!(
                    solution_digest(slug, before, &dataset.configs),
                    solution_digest(slug, after, &decoded[0].configs)
                );
            }
        }
    }
}
