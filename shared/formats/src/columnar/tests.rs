//! Tests of the reader with well-formed files whose parts contradict each other.

use diode_core::hardware::Hardware;
use diode_core::{Config, DType, Method, Op, Problem, ProblemFields, Provenance, TimeColumn};
use serde::Serialize;

use crate::columnar::{Blob, DatasetHeader, FORMAT, Failures, FileHeader, ProblemRecord, SCHEMA};
use crate::columns::write_configs;
use crate::columns::{write_indexes, write_times, write_u32s};

fn blob(write: impl FnOnce(&mut Vec<u8>)) -> Blob {
    let mut out = Vec::new();
    write(&mut out);
    Blob(out)
}

/// Forges a file of one dataset and one problem, and returns what reading it gives.
fn read(forge: impl FnOnce(&mut DatasetHeader, &mut ProblemRecord)) -> Result<usize, String> {
    let configs = [Config::Library, Config::DecomposeK { k_split: 2 }];
    let mut header = DatasetHeader {
        hardware: Hardware::from_name("NVIDIA H200").unwrap(),
        provenance: Provenance::default(),
        configs: blob(|out| write_configs(out, configs.iter())),
        problems: 1,
    };
    let mut record = ProblemRecord {
        problem: Problem::new(ProblemFields::plain(Op::Mm, 1, 8, 8, 8, DType::Float16)).unwrap(),
        method: Method::Unspecified,
        rows: 2,
        list: 0,
        configs: Some(blob(|out| write_indexes(out, [0, 1]))),
        times: blob(|out| write_times(out, &TimeColumn::Nanos(vec![64, 96]))),
        minimum_ns: None,
        spread_ns: None,
        repeats: None,
        failures: None,
    };
    forge(&mut header, &mut record);
    let mut bytes = Vec::new();
    let mut stream = rmp_serde::Serializer::new(&mut bytes).with_struct_map();
    FileHeader { format: FORMAT.to_owned(), schema: SCHEMA, datasets: 1 }.serialize(&mut stream).unwrap();
    header.serialize(&mut stream).unwrap();
    record.serialize(&mut stream).unwrap();
    match crate::decode(&bytes) {
        Ok(decoded) => Ok(decoded.datasets[0].timings()),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn forged_records_are_refused_where_they_stand() {
    assert_eq!(read(|_, _| ()), Ok(2));
    let place = "(hardware \"NVIDIA H200\", problem 1)";
    let refused = |forge: fn(&mut ProblemRecord), cause: &str| {
        let error = read(|_, record| forge(record)).unwrap_err();
        assert!(error.contains(place) && error.contains(cause), "{error}");
    };
    refused(|record| record.list = 1, "config list 1, expected one of the 1 defined so far");
    refused(|record| record.rows = 1 << 40, "timings of one problem, expected at most");
    refused(|record| record.rows = 3, "column times: expected 3 more bytes");
    refused(
        |record| record.configs = Some(blob(|out| write_indexes(out, [0, 2]))),
        "config index: got 2, expected less than 2",
    );
    refused(
        |record| record.times = blob(|out| write_times(out, &TimeColumn::Nanos(vec![0, 1]))),
        "time: got 0 ns, expected more than 0",
    );
    refused(|record| record.times.0[0] = 9, "time codec 9");
    refused(|record| record.times.0.push(0), "column times: expected the end");
    refused(
        |record| {
            let (configs, reasons) = (blob(|out| write_indexes(out, [0])), blob(|out| write_u32s(out, [0])));
            record.failures = Some(Failures { rows: 1, configs, reasons });
        },
        "failure reason code 0",
    );
}

#[test]
fn a_dictionary_names_a_config_once() {
    let twice = [Config::Library, Config::Library];
    let error = read(|header, _| header.configs = blob(|out| write_configs(out, twice.iter())));
    assert!(error.unwrap_err().contains("lists a config twice"));
}
