//! What is written in a format can be read and means the same.

use diode_core::{
    Config, ConfigIndex, Dataset, Failure, FailureReason, Op, Provenance, TimeColumn, hardware::Hardware,
};
use diode_formats::stored::{decode_configs, encode_configs};
use diode_formats::{
    Decoded, Format, content_digest, decode, encode, left_out, read_file, reduce, write_file,
};

use crate::samples::{golden, plain, problem, rich, solution};

/// Reads encoded datasets back from a file whose name has no ending.
pub(crate) fn reread(bytes: &[u8]) -> Decoded {
    let file = tempfile::NamedTempFile::new().unwrap();
    #[expect(clippy::disallowed_methods, reason = "thrown away at once")]
    std::fs::write(file.path(), bytes).unwrap();
    read_file(file.path()).unwrap()
}

#[test]
fn every_format_converts_to_every_other() {
    let digest = content_digest(&plain());
    for from in Format::ALL {
        let first = reread(&encode(from, &plain()).unwrap());
        for to in Format::ALL {
            let bytes = encode(to, &first.datasets).unwrap();
            let second = reread(&bytes);
            assert_eq!(second.format, to);
            assert_eq!(content_digest(&second.datasets), digest, "{from} to {to}");
            for (before, after) in plain().iter().zip(&second.datasets) {
                assert_eq!(before.hardware, after.hardware);
            }
            assert_eq!(bytes, encode(to, &second.datasets).unwrap(), "{from} to {to} is stable");
        }
    }
}

/// All real times in every ordered pair of formats: what was read from the first is written in the second.
#[test]
fn the_real_h200_timings_survive_every_pair_of_formats() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../trained_models/matmul/nvidia-h200/data/h200-mm-bf16.msgpack.zst"
    );
    let original = read_file(std::path::Path::new(path)).unwrap().datasets;
    assert_eq!((original[0].solutions.len(), original[0].timings()), (209, 320_606));
    let digest = content_digest(&original);
    let mut seen: Vec<Vec<Dataset>> = Vec::new();
    for from in Format::ALL {
        let first = reread(&encode(from, &original).unwrap()).datasets;
        assert_eq!(content_digest(&first), digest, "{from}");
        // An earlier format gave the same datasets in the same order. So writing them in all formats was
        // checked already.
        if seen.contains(&first) {
            continue;
        }
        for to in Format::ALL {
            let second = reread(&encode(to, &first).unwrap()).datasets;
            assert_eq!(content_digest(&second), digest, "{from} to {to}");
        }
        seen.push(first);
    }
}

#[test]
fn columnar_holds_everything() {
    let decoded = decode(&encode(Format::Columnar, &rich()).unwrap()).unwrap();
    assert_eq!(decoded.datasets, rich());
    assert_eq!(decode(&encode(Format::Columnar, &[]).unwrap()).unwrap().datasets, []);
}

#[test]
fn rows_hold_everything_but_problems_without_any() {
    for format in [Format::Csv, Format::Parquet] {
        let message = encode(format, &rich()).unwrap_err().to_string();
        assert!(message.contains("problems without any timing or failure (1 problem)"), "{message}");
        let kept = reduce(format, &rich()).datasets;
        let decoded = reread(&encode(format, &kept).unwrap());
        assert_eq!(decoded.format, format);
        assert_same(&decoded.datasets, &kept);
        let provenance = decoded.datasets.iter().map(|dataset| &dataset.provenance);
        if format == Format::Parquet {
            assert!(provenance.eq(kept.iter().map(|dataset| &dataset.provenance)));
            assert_eq!(left_out(format, &kept), [""; 0]);
        } else {
            assert_eq!(left_out(format, &kept), ["provenance"]);
        }
    }
}

/// Everything but provenance and the order of dictionaries is equal.
pub(crate) fn assert_same(left: &[Dataset], right: &[Dataset]) {
    assert_eq!(left.len(), right.len());
    assert_eq!(content_digest(left), content_digest(right));
    for (left, right) in left.iter().zip(right) {
        assert_eq!(left.hardware, right.hardware);
        assert_eq!(left.solutions.len(), right.solutions.len());
        for (a, b) in left.solutions.iter().zip(&right.solutions) {
            assert_eq!((&a.problem, a.method, &a.times), (&b.problem, b.method, &b.times));
            assert_eq!((&a.minimum_ns, &a.spread_ns, &a.repeats), (&b.minimum_ns, &b.spread_ns, &b.repeats));
            let configs = |dataset: &Dataset, solution: &diode_core::Solution| -> Vec<Config> {
                solution.configs.iter().map(|&index| *dataset.configs.get(index)).collect()
            };
            assert_eq!(configs(left, a), configs(right, b));
        }
    }
}

#[test]
fn rows_may_come_in_any_order_and_say_less() {
    let text = String::from_utf8(encode(Format::Csv, &plain()).unwrap()).unwrap();
    let (header, rows) = text.split_once('\n').unwrap();
    let mut rows: Vec<&str> = rows.lines().collect();
    rows.sort_unstable_by_key(|row| row.len());
    let shuffled = format!("{header}\r\n{}\r\n", rows.join("\r\n"));
    assert_eq!(content_digest(&reread(shuffled.as_bytes()).datasets), content_digest(&plain()));

    let least = "op,m,n,k,a_dtype,hardware,block_m,block_n,block_k,group_m,num_stages,num_warps,time_ms\n\
                 mm,64,128,32,bfloat16,nvidia-h100,64,32,16,8,2,4,0.0123\n\
                 mm,64,128,32,bfloat16,nvidia-h100,64,32,16,8,2,4,0.01\n";
    let decoded = reread(least.as_bytes()).datasets;
    assert_eq!(decoded[0].solutions, golden().solutions);
    assert_eq!(decoded[0].hardware.slug, golden().hardware.slug);
    let message = decode(least.as_bytes()).unwrap_err().to_string();
    assert!(message.starts_with("got CSV, which is for people"), "{message}");
}

#[test]
fn what_torch_diodes_format_cannot_hold_can_be_let_go() {
    let kept = reduce(Format::PredecessorJson, &rich()).datasets;
    let json = reread(&encode(Format::PredecessorJson, &kept).unwrap());
    let msgpack = reread(&encode(Format::PredecessorMsgpack, &kept).unwrap());
    assert_eq!(json.datasets, msgpack.datasets);
    assert_same(&json.datasets[..2], &plain());
    let measured = &json.datasets[2].solutions;
    // The linear layer has six timings, of which two are of the op's own template.
    assert_eq!(measured[0].times, TimeColumn::Nanos(vec![138_784, 150_016]));
    assert_eq!(measured[0].failures.len(), 2);
    assert!(measured[0].failures.iter().all(|failure| failure.reason == FailureReason::NotFinite));
    assert_eq!(measured[0].problem.b_layout, diode_core::Layout::Row);
}

#[test]
fn torch_diodes_format_refuses_what_it_would_lose_and_lists_it() {
    for format in [Format::PredecessorJson, Format::PredecessorMsgpack] {
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
    let json = encode(Format::PredecessorJson, std::slice::from_ref(&dataset)).unwrap();
    assert!(String::from_utf8_lossy(&json).contains("\"time\": Infinity,"));
    assert_eq!(decode(&json).unwrap().datasets, [dataset.clone()]);
    let text = String::from_utf8(json).unwrap();
    for word in ["NaN", "-Infinity", "null"] {
        assert_eq!(decode(text.replace("Infinity", word).as_bytes()).unwrap().datasets, [dataset.clone()]);
    }
}

#[test]
fn solutions_of_one_problem_share_its_key_in_torch_diodes_format() {
    let mut dataset = golden();
    dataset.solutions.push(solution(problem(Op::Mm, 64, 128, 32), &[0], &[0.5]));
    let decoded = decode(&encode(Format::PredecessorMsgpack, &[dataset.clone(), golden()]).unwrap()).unwrap();
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
    let json = encode(Format::PredecessorJson, &plain()).unwrap();
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

/// Reverses the order of the dictionary and of the rows. The data stays the same.
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
        for column in solution.minimum_ns.iter_mut().chain(&mut solution.spread_ns) {
            column.reverse();
        }
        for column in solution.repeats.iter_mut() {
            column.reverse();
        }
    }
}

#[test]
fn stored_lists_round_trip() {
    for dataset in rich() {
        let configs: Vec<Config> = dataset.configs.iter().copied().collect();
        assert_eq!(decode_configs(&encode_configs(&configs)).unwrap(), configs);
    }
}
