//! Writing columnar files.

use std::collections::HashMap;
use std::io::{self, Write};

use diode_core::{ConfigIndex, Dataset, Solution};
use serde::Serialize;

use crate::columnar::{Blob, DatasetHeader, FORMAT, Failures, FileHeader, ProblemRecord, SCHEMA};
use crate::columns::{reason_code, write_configs};
use crate::columns::{write_indexes, write_numbers, write_times, write_u32s};

/// zstd's default level. Higher levels gain little, because the low bytes of times are noise.
const LEVEL: i32 = 3;

pub(crate) fn encode(datasets: &[Dataset]) -> Vec<u8> {
    write(datasets).expect("everything is serialisable and is written into memory")
}

fn write(datasets: &[Dataset]) -> io::Result<Vec<u8>> {
    let mut stream = zstd::stream::write::Encoder::new(Vec::new(), LEVEL)?;
    stream.include_checksum(true)?;
    write_map(
        &mut stream,
        &FileHeader { format: FORMAT.to_owned(), schema: SCHEMA, datasets: datasets.len() as u64 },
    )?;
    for dataset in datasets {
        let header = DatasetHeader {
            hardware: dataset.hardware.clone(),
            provenance: dataset.provenance.clone(),
            configs: blob(|out| write_configs(out, dataset.configs.iter())),
            problems: dataset.solutions.len() as u64,
        };
        write_map(&mut stream, &header)?;
        let mut lists: HashMap<&[ConfigIndex], u64> = HashMap::new();
        for solution in &dataset.solutions {
            write_map(&mut stream, &record(solution, &mut lists))?;
        }
    }
    stream.finish()
}

fn record<'a>(solution: &'a Solution, lists: &mut HashMap<&'a [ConfigIndex], u64>) -> ProblemRecord {
    let next = lists.len() as u64;
    let list = *lists.entry(&solution.configs).or_insert(next);
    ProblemRecord {
        problem: solution.problem.clone(),
        method: solution.method,
        rows: solution.configs.len() as u64,
        list,
        configs: (list == next)
            .then(|| blob(|out| write_indexes(out, solution.configs.iter().map(|index| index.0)))),
        times: blob(|out| write_times(out, &solution.times)),
        minimum_ns: solution.minimum_ns.as_ref().map(|minimum| blob(|out| write_numbers(out, minimum))),
        spread_ns: solution.spread_ns.as_ref().map(|spread| blob(|out| write_numbers(out, spread))),
        repeats: solution
            .repeats
            .as_ref()
            .map(|repeats| blob(|out| write_u32s(out, repeats.iter().copied()))),
        failures: (!solution.failures.is_empty()).then(|| Failures {
            rows: solution.failures.len() as u64,
            configs: blob(|out| write_indexes(out, solution.failures.iter().map(|f| f.config.0))),
            reasons: blob(|out| write_u32s(out, solution.failures.iter().map(|f| reason_code(f.reason)))),
        }),
    }
}

fn blob(write: impl FnOnce(&mut Vec<u8>)) -> Blob {
    let mut out = Vec::new();
    write(&mut out);
    Blob(out)
}

fn write_map(stream: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    value
        .serialize(&mut rmp_serde::Serializer::new(stream).with_struct_map())
        .map_err(|error| io::Error::other(error.to_string()))
}
