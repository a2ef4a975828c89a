//! What is written can be read, in every format, and means the same.

use crate::samples::{golden, plain, problem, rich, solution};
use diode_core::{
    Config, ConfigIndex, Dataset, Failure, FailureReason, Op, Provenance, Tile, TimeColumn,
    hardware::Hardware,
};
use diode_formats::packed::{Columns, decode_columns, decode_configs, encode_columns, encode_configs};
use diode_formats::{Format, content_digest, decode, encode, read_file, solution_digest, write_file};
use proptest::prelude::*;

const FORMATS: [Format; 3] = [Format::TorchDiodeJson, Format::TorchDiodeMsgpack, Format::Columnar];

#[test]
fn every_format_converts_to_every_other() {
    let digest = content_digest(&plain());
    for from in FORMATS {
        let first = decode(&encode(from, &plain()).unwrap()).unwrap();
        for to in FORMATS {
            let bytes = encode(to, &first.datasets).unwrap();
            let second = decode(&bytes).unwrap();
            assert_eq!(second.format, to);
            assert_eq!(content_digest(&second.datasets), digest, "{from} to {to}");
            for (before, after) in plain().iter().zip(&second.datasets) {
                assert_eq!(before.hardware, after.hardware);
            }
            assert_eq!(bytes, encode(to, &second.datasets).unwrap(), "{from} to {to} is stable");
        }
    }
}

#[test]
fn columnar_holds_everything() {
    let decoded = decode(&encode(Format::Columnar, &rich()).unwrap()).unwrap();
    assert_eq!(decoded.datasets, rich());
    assert_eq!(decode(&encode(Format::Columnar, &[]).unwrap()).unwrap().datasets, []);
}

#[test]
fn the_old_form_refuses_what_it_would_lose_and_lists_it() {
    for format in [Format::TorchDiodeJson, Format::TorchDiodeMsgpack] {
        let message = encode(format, &rich()).unwrap_err().to_string();
        for loss in [
            "column-major inputs (1 problem)",
            "a vector bias",
            "how times were measured",
            "the spread of repeats",
            "the number of repeats",
            "reasons of failures",
            "library timings",
            "split-K configs",
            "configs of another template",
            "ROCm's parameters",
            ".msgpack.zst",
        ] {
            assert!(message.contains(loss), "{loss}: {message}");
        }
    }
}

#[test]
fn failures_without_a_reason_become_infinity_and_back() {
    let mut dataset = golden();
    dataset.solutions[0].failures =
        vec![Failure { config: ConfigIndex(0), reason: FailureReason::NotFinite }];
    let json = encode(Format::TorchDiodeJson, std::slice::from_ref(&dataset)).unwrap();
    assert!(String::from_utf8_lossy(&json).contains("\"time\": Infinity,"));
    assert_eq!(decode(&json).unwrap().datasets, [dataset.clone()]);
    let text = String::from_utf8(json).unwrap();
    for word in ["NaN", "-Infinity", "null"] {
        assert_eq!(decode(text.replace("Infinity", word).as_bytes()).unwrap().datasets, [dataset.clone()]);
    }
}

#[test]
fn solutions_of_one_problem_share_its_key_in_the_old_form() {
    let mut dataset = golden();
    dataset.solutions.push(solution(problem(Op::Mm, 64, 128, 32), &[0], &[0.5]));
    let decoded = decode(&encode(Format::TorchDiodeMsgpack, &[dataset.clone(), golden()]).unwrap()).unwrap();
    assert_eq!(decoded.datasets.len(), 1, "one hardware name");
    assert_eq!(decoded.datasets[0].solutions.len(), 1);
    assert_eq!(decoded.datasets[0].timings(), 5);
}

#[test]
fn contradictory_datasets_are_not_written() {
    let mut dataset = golden();
    dataset.solutions[0].configs.push(ConfigIndex(0));
    let message = encode(Format::Columnar, &[dataset]).unwrap_err().to_string();
    assert!(message.contains("NVIDIA H100") && message.contains("time column: got 2 rows"), "{message}");
}

#[test]
fn compression_is_seen_through() {
    let json = encode(Format::TorchDiodeJson, &plain()).unwrap();
    let decoded = decode(&zstd::encode_all(&json[..], 3).unwrap()).unwrap();
    assert_eq!(decoded, decode(&json).unwrap());
    let columnar = encode(Format::Columnar, &rich()).unwrap();
    assert_eq!(decode(&zstd::decode_all(&columnar[..]).unwrap()).unwrap().datasets, rich());
}

#[test]
fn files_are_read_by_content() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data.msgpack.zst");
    write_file(&path, &rich()).unwrap();
    let renamed = dir.path().join("data.json");
    std::fs::rename(&path, &renamed).unwrap();
    assert_eq!(read_file(&renamed).unwrap().datasets, rich());
    let message = write_file(&renamed, &rich()).unwrap_err().to_string();
    assert!(message.contains("data.json: torch-diode's format cannot hold"), "{message}");
}

#[test]
fn digests_ignore_order_and_provenance_but_no_timing() {
    let original = rich();
    let digest = content_digest(&original);
    let mut shuffled = original.clone();
    shuffled.reverse();
    for dataset in &mut shuffled {
        dataset.provenance = Provenance::default();
        dataset.solutions.reverse();
        reverse_configs(dataset);
    }
    assert_eq!(content_digest(&shuffled), digest);

    let mut touched = original.clone();
    touched[0].solutions[0].times = TimeColumn::from_millis(vec![0.040_16, 1.6e-5]).unwrap();
    assert_ne!(content_digest(&touched), digest);
    let mut touched = original.clone();
    touched[0].hardware = Hardware::from_name("NVIDIA A100").unwrap();
    assert_ne!(content_digest(&touched), digest);
    let mut touched = original.clone();
    touched[2].solutions[0].failures.pop();
    assert_ne!(content_digest(&touched), digest);
}

/// The same data with its dictionary and its rows the other way round.
fn reverse_configs(dataset: &mut Dataset) {
    let last = dataset.configs.len() as u32 - 1;
    let mut reversed: Vec<Config> = dataset.configs.iter().copied().collect();
    reversed.reverse();
    dataset.configs = reversed.into_iter().collect();
    for solution in &mut dataset.solutions {
        let millis = (0..solution.times.len()).rev().map(|row| solution.times.millis(row).0).collect();
        solution.times = TimeColumn::from_millis(millis).unwrap();
        solution.configs.reverse();
        solution.configs.iter_mut().for_each(|index| index.0 = last - index.0);
        solution.failures.reverse();
        solution.failures.iter_mut().for_each(|failure| failure.config.0 = last - failure.config.0);
        for column in solution.spread_ns.iter_mut() {
            column.reverse();
        }
        for column in solution.repeats.iter_mut() {
            column.reverse();
        }
    }
}

#[test]
fn packed_lists_round_trip() {
    for dataset in rich() {
        let configs: Vec<Config> = dataset.configs.iter().copied().collect();
        assert_eq!(decode_configs(&encode_configs(&configs)).unwrap(), configs);
    }
}

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
        spread in any::<Option<u64>>(),
        repeats in any::<Option<u32>>(),
        failures in prop::collection::vec(
            (any::<u32>(), prop::sample::select(FailureReason::ALL)), 0..10,
        ),
    ) -> Columns {
        let rows = times.len();
        Columns {
            times,
            spread_ns: spread.map(|seed| (0..rows as u64).map(|row| seed.wrapping_mul(row)).collect()),
            repeats: repeats.map(|seed| (0..rows as u32).map(|row| seed.wrapping_mul(row)).collect()),
            failures,
        }
    }
}

proptest! {
    #[test]
    fn packed_columns_round_trip(columns in any_columns()) {
        prop_assert_eq!(decode_columns(&encode_columns(&columns)).unwrap(), columns);
    }

    #[test]
    fn every_dataset_of_the_old_form_converts_without_loss(
        times in prop::collection::vec((any_times(), 1..5000_u64), 0..5),
    ) {
        let tiles = (0..40_u32).map(|i| Tile { group_m: i + 1, ..Tile::new(64, 64, 32, 3, 4) });
        let solutions = times.into_iter().enumerate().map(|(i, (times, m))| {
            let configs: Vec<u32> = (0..times.len() as u32).collect();
            let problem = problem(Op::Baddbmm, m, i as u64 + 1, 8);
            diode_core::Solution { times, ..solution(problem, &configs, &vec![1.0; configs.len()]) }
        });
        let dataset = Dataset {
            configs: tiles.map(Config::Bmm).collect(),
            solutions: solutions.collect(),
            ..golden()
        };
        let digest = content_digest(std::slice::from_ref(&dataset));
        for format in FORMATS {
            let decoded = decode(&encode(format, std::slice::from_ref(&dataset)).unwrap()).unwrap().datasets;
            prop_assert_eq!(content_digest(&decoded), digest.clone());
            let slug = &dataset.hardware.slug;
            for (before, after) in dataset.solutions.iter().zip(&decoded[0].solutions) {
                prop_assert_eq!(&before.times, &after.times);
                prop_assert_eq!(
                    solution_digest(slug, before, &dataset.configs),
                    solution_digest(slug, after, &decoded[0].configs)
                );
            }
        }
    }
}
