//! Writes the corpus that fuzzing begins with, from a real dataset:
//! `cargo run --bin seeds -- DATASET CORPUS_FOLDER`.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use diode_core::{
    Config, ConfigIndex, Dataset, Failure, FailureReason, Method, Provenance, Solution, TimeColumn,
};
use diode_formats::stored::{Columns, encode_columns, encode_configs};
use diode_formats::{Format, encode, read_file};

/// Problems and timings of each seed. They are few because the fuzzer mutates small files more
/// often.
const PROBLEMS: usize = 3;
const TIMINGS: usize = 4;

/// The pickle of a checkpoint with one tensor, in pieces.
const CHECKPOINT: [&[u8]; 8] = [
    b"\x80\x02}q\x00(X\x10\0\0\0model_state_dictccollections\nOrderedDict\n)Rq\x01(",
    b"X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\n",
    b"X\x01\0\0\x000X\x03\0\0\0cpuK\x10tQK\x00K\x02K\x08\x86K\x08K\x01\x86",
    b"\x89ccollections\nOrderedDict\n)RtR",
    b"u}X\x09\0\0\0_metadataNsb",
    b"X\x0b\0\0\0hidden_dims](M\x00\x01K\x02e",
    b"X\x0c\0\0\0dropout_rateG?\xc9\x99\x99\x99\x99\x99\x9a",
    b"u.",
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(dataset), Some(corpus)) = (arguments.next(), arguments.next()) else {
        return Err("expected a dataset and the folder of the corpus".into());
    };
    let corpus = PathBuf::from(corpus);
    let mut number = 0;
    for dataset in read_file(Path::new(&dataset))?.datasets {
        for solutions in dataset.solutions.chunks(PROBLEMS).take(20) {
            seeds(&corpus, number, &part(&dataset, solutions))?;
            number += 1;
        }
    }
    write(&corpus, "checkpoint", number, &CHECKPOINT.concat())?;
    println!("{number} seeds per target in {}", corpus.display());
    Ok(())
}

/// A few timings of a few problems.
fn part(dataset: &Dataset, solutions: &[Solution]) -> Dataset {
    let shortened = solutions.iter().map(|solution| {
        let millis = (0..TIMINGS).map(|row| solution.times.millis(row).0).collect();
        Solution {
            configs: (0..TIMINGS as u32).map(ConfigIndex).collect(),
            times: TimeColumn::from_millis(millis).expect("times of a valid column"),
            ..solution.clone()
        }
    });
    Dataset {
        configs: dataset.configs.iter().take(TIMINGS).copied().collect(),
        solutions: shortened.collect(),
        ..dataset.clone()
    }
}

fn seeds(corpus: &Path, number: usize, part: &Dataset) -> Result<(), Box<dyn Error>> {
    let plain = std::slice::from_ref(part);
    write(corpus, "predecessor_json", number, &encode(Format::PredecessorJson, plain)?)?;
    write(corpus, "predecessor_msgpack", number, &encode(Format::PredecessorMsgpack, plain)?)?;
    let rich = [enriched(part)];
    write(corpus, "columnar", number, &zstd::decode_all(&encode(Format::Columnar, &rich)?[..])?)?;
    let configs: Vec<Config> = rich[0].configs.iter().copied().collect();
    write(corpus, "stored", number, &unpacked(&encode_configs(&configs))?)?;
    for solution in &rich[0].solutions {
        let columns = Columns {
            times: solution.times.clone(),
            minimum_ns: solution.minimum_ns.clone(),
            spread_ns: solution.spread_ns.clone(),
            repeats: solution.repeats.clone(),
            failures: vec![(TIMINGS as u32, FailureReason::Compile)],
        };
        let name = format!("columns-{}", solution.problem.id());
        write(corpus, "stored", name, &unpacked(&encode_columns(&columns))?)?;
    }
    Ok(())
}

/// The same dataset with values in every field that only our own formats hold.
fn enriched(part: &Dataset) -> Dataset {
    let mut rich = part.clone();
    rich.provenance = Provenance { tool: Some("fuzz".to_owned()), ..Provenance::default() };
    for solution in &mut rich.solutions {
        solution.method = Method::MEDIAN_COLD_EVENT;
        solution.minimum_ns = Some(vec![1; TIMINGS]);
        solution.spread_ns = Some(vec![320; TIMINGS]);
        solution.repeats = Some(vec![20; TIMINGS]);
        solution.failures.push(Failure { config: ConfigIndex(0), reason: FailureReason::OutOfResources });
    }
    rich
}

/// A blob without its version byte and its compression.
fn unpacked(blob: &[u8]) -> std::io::Result<Vec<u8>> {
    zstd::decode_all(&blob[1..])
}

fn write(corpus: &Path, target: &str, name: impl std::fmt::Display, bytes: &[u8]) -> std::io::Result<()> {
    let folder = corpus.join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(format!("seed-{name}")), bytes)
}
