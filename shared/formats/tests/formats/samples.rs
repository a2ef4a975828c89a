//! Small datasets for the tests.

use std::collections::BTreeMap;

use diode_core::hardware::Hardware;
use diode_core::{
    AccType, Bias, Config, ConfigDictionary, ConfigIndex, DType, Dataset, Failure, FailureReason, Layout,
    Method, Op, OutputLayout, Problem, ProblemFields, Provenance, RocmExtras, Solution, Tile, TimeColumn,
};

pub(crate) fn problem(op: Op, m: u64, n: u64, k: u64) -> Problem {
    Problem::new(ProblemFields::plain(op, 1, m, n, k, DType::BFloat16)).unwrap()
}

pub(crate) fn solution(problem: Problem, configs: &[u32], millis: &[f64]) -> Solution {
    Solution {
        problem,
        method: Method::Unspecified,
        configs: configs.iter().copied().map(ConfigIndex).collect(),
        times: TimeColumn::from_millis(millis.to_vec()).unwrap(),
        minimum_ns: None,
        spread_ns: None,
        repeats: None,
        failures: Vec::new(),
    }
}

/// The dataset that torch-diode's golden files hold.
pub(crate) fn golden() -> Dataset {
    Dataset {
        hardware: Hardware::from_name("NVIDIA H100").unwrap(),
        provenance: Provenance::default(),
        configs: [Config::Mm(Tile::new(64, 32, 16, 2, 4))].into_iter().collect(),
        solutions: vec![solution(problem(Op::Mm, 64, 128, 32), &[0, 0], &[0.0123, 0.01])],
    }
}

/// Everything that torch-diode's format can hold: two ops, times that are no whole nanoseconds, a
/// transposed output, an infinite time, and an unknown device with a name beyond ASCII.
pub(crate) fn plain() -> Vec<Dataset> {
    let tiles: Vec<Tile> = [(16, 16), (64, 32), (128, 256)]
        .into_iter()
        .map(|(m, n)| Tile { acc_type: AccType::Float16, ..Tile::new(m, n, 64, 3, 8) })
        .collect();
    let configs: ConfigDictionary =
        tiles.iter().map(|&t| Config::Mm(t)).chain(tiles.iter().map(|&t| Config::Bmm(t))).collect();
    let transposed = Problem::new(ProblemFields {
        out_layout: Some(OutputLayout { size: [1, 48, 24], stride: [1152, 24, 1] }),
        out_dtype: DType::Float32,
        ..problem(Op::Addmm, 24, 48, 17).into_fields()
    })
    .unwrap();
    let batched =
        Problem::new(ProblemFields { b: 6, ..problem(Op::Bmm, 33, 65, 129).into_fields() }).unwrap();
    let failed = Failure { config: ConfigIndex(1), reason: FailureReason::NotFinite };
    let first = Dataset {
        hardware: Hardware::from_name("NVIDIA H200").unwrap(),
        provenance: Provenance::default(),
        configs,
        solutions: vec![
            Solution {
                failures: vec![failed],
                ..solution(problem(Op::Mm, 8, 16, 32), &[2, 0], &[0.040_16, 1.5e-5])
            },
            solution(problem(Op::Mm, 1, 1, 1), &[0, 1, 2], &[0.021_824_000_403_285_027, 0.01, 3.0]),
            solution(transposed, &[1], &[0.5]),
            solution(batched, &[3, 4, 5], &[0.1, 0.2, 0.3]),
        ],
    };
    let other = Dataset { hardware: Hardware::from_name("Grün \"X\" GPU 😀").unwrap(), ..golden() };
    vec![first, other]
}

/// Everything that only the columnar format can hold.
pub(crate) fn rich() -> Vec<Dataset> {
    let tile = Tile::new(128, 64, 32, 4, 8).for_k(4096);
    let rocm = RocmExtras { matrix_instr_nonkdim: 16, waves_per_eu: 2, kpack: 2 };
    let configs: ConfigDictionary = [
        Config::Mm(tile),
        Config::Mm(Tile { rocm: Some(rocm), allow_tf32: true, use_fast_accum: true, ..tile }),
        Config::PersistentTma(tile),
        Config::Bmm(Tile { acc_type: AccType::Int32, ..tile }),
        Config::DecomposeK { k_split: 8 },
        Config::Library,
        Config::RoundingLibrary,
    ]
    .into_iter()
    .collect();
    let linear = Problem::new(ProblemFields {
        b_layout: Layout::Column,
        bias: Bias::Vector,
        b_dtype: DType::Float8E4M3,
        ..problem(Op::Addmm, 4096, 4096, 4096).into_fields()
    })
    .unwrap();
    let failures = FailureReason::ALL
        .iter()
        .enumerate()
        .map(|(i, &reason)| Failure { config: ConfigIndex(i as u32 % 7), reason })
        .collect();
    let measured = Dataset {
        hardware: Hardware::from_name("AMD Instinct MI300X").unwrap(),
        provenance: Provenance {
            tool: Some("diode 0.1.0".to_owned()),
            collected_at: Some("2026-01-02T03:04:05Z".to_owned()),
            node: BTreeMap::from([("driver".to_owned(), "6.2".to_owned())]),
        },
        configs,
        solutions: vec![
            Solution {
                method: Method::MEDIAN_COLD_EVENT,
                minimum_ns: Some(vec![138_784, 149_800, 141_180, 3_200_000_000, 137_630, 99_000]),
                spread_ns: Some(vec![0, 320, 64, 32, 5, 6]),
                repeats: Some(vec![20, 20, 5, 1, 0, 7]),
                failures,
                times: TimeColumn::from_nanos(vec![
                    138_784,
                    150_016,
                    141_216,
                    3_200_000_000,
                    137_632,
                    99_232,
                ])
                .unwrap(),
                ..solution(linear, &[0, 1, 2, 4, 5, 6], &[1.0; 6])
            },
            solution(problem(Op::Bmm, 7, 5, 3), &[3, 3], &[0.021_824_000_403_285_027, 0.2]),
            solution(problem(Op::Mm, 7, 5, 3), &[], &[]),
        ],
    };
    let mut datasets = plain();
    datasets.push(measured);
    datasets
}
