//! Diode's own format: a stream of MessagePack objects under one zstd frame, specified in
//! `docs/reference/formats.md`. Beside the datasets themselves, readers and writers hold one
//! problem at a time.

#[cfg(test)]
mod tests;
#[cfg(not(target_family = "wasm"))]
mod writer;

use std::fmt;
use std::io::Read;

use diode_core::hardware::Hardware;
use diode_core::{ConfigDictionary, ConfigIndex, Dataset, Failure, Method, Problem, Provenance, Solution};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error, SeqAccess, Visitor};
use serde::{Serialize, Serializer};

use crate::FormatError;
use crate::bytes::{Corrupt, Cursor};
use crate::columns::{read_configs, reason_from_code};
use crate::columns::{read_indexes, read_numbers, read_times, read_u32s};
use crate::error::{Place, malformed_msgpack};
use crate::input::Source;
use crate::limits::{
    MAX_CONFIGS, MAX_CONFIGS_PER_FILE, MAX_DATASETS, MAX_DEPTH, MAX_NODE_FACTS, MAX_OBJECT,
    MAX_PROBLEMS_PER_FILE, MAX_TEXT, MAX_TIMINGS_PER_PROBLEM, too_many, too_many_timings,
};

#[cfg(not(target_family = "wasm"))]
pub(crate) use crate::columnar::writer::encode;

const ENCODING: &str = "columnar MessagePack";

/// Whether some bytes begin like a columnar file: with a small map whose first key is `format`.
pub(crate) fn begins(head: &[u8]) -> bool {
    head.first().is_some_and(|marker| marker & 0xf0 == 0x80) && head[1..].starts_with(b"\xa6format")
}

/// The value of the field `format`.
const FORMAT: &str = "diode-columnar";
/// A change that older readers would misread needs a higher number.
const SCHEMA: u32 = 1;

/// The first object of a file.
#[derive(Serialize, serde::Deserialize)]
struct FileHeader {
    /// The first field, by which files are recognised.
    format: String,
    schema: u32,
    /// The number of datasets that follow.
    datasets: u64,
}

/// The object that begins a dataset.
#[derive(Serialize, serde::Deserialize)]
struct DatasetHeader {
    hardware: Hardware,
    #[serde(default)]
    provenance: Provenance,
    /// The config dictionary.
    configs: Blob,
    /// The number of problems that follow.
    problems: u64,
}

/// One problem with all its columns.
#[derive(Serialize, serde::Deserialize)]
struct ProblemRecord {
    problem: Problem,
    method: Method,
    rows: u64,
    /// The number of the config list whose configs the rows have. Lists count from 0, in the order
    /// in which this dataset's problems first use them.
    list: u64,
    /// The config list itself, if this problem is the first to use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    configs: Option<Blob>,
    times: Blob,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    minimum_ns: Option<Blob>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spread_ns: Option<Blob>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repeats: Option<Blob>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failures: Option<Failures>,
}

/// The configs without a time, and the reasons.
#[derive(Serialize, serde::Deserialize)]
struct Failures {
    rows: u64,
    configs: Blob,
    reasons: Blob,
}

/// A column, written as MessagePack's binary type. serde would write a `Vec<u8>` as a list of
/// numbers.
struct Blob(Vec<u8>);

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl<'de> Visitor<'de> for Bytes {
            type Value = Blob;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a column as binary data")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Blob, E> {
                Ok(Blob(bytes.to_vec()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Blob, A::Error> {
                Err(Error::custom("a column as a list of numbers, expected binary data"))
            }
        }

        deserializer.deserialize_bytes(Bytes)
    }
}

pub(crate) fn decode<R: Read>(source: Source<R>) -> Result<Vec<Dataset>, FormatError> {
    let mut reader = Reader { source, place: Place::default(), timings: 0, problems: 0, configs: 0 };
    let header: FileHeader = reader.object()?;
    if header.format != FORMAT || header.schema != SCHEMA {
        return Err(reader.refuse(format!(
            "format {:?} with schema {}, expected {FORMAT:?} with schema {SCHEMA}; update diode to read it",
            header.format, header.schema
        )));
    }
    let count = reader.count("datasets", header.datasets, MAX_DATASETS)?;
    let mut datasets = Vec::new();
    for _ in 0..count {
        datasets.push(reader.dataset()?);
    }
    reader.source.finish(ENCODING)?;
    Ok(datasets)
}

struct Reader<R> {
    source: Source<R>,
    place: Place,
    timings: usize,
    /// The number of problems so far, over all datasets.
    problems: usize,
    configs: usize,
}

impl<R: Read> Reader<R> {
    fn object<T: DeserializeOwned>(&mut self) -> Result<T, FormatError> {
        self.source.bound(MAX_OBJECT);
        let mut msgpack = rmp_serde::Deserializer::new(&mut self.source);
        msgpack.set_max_depth(MAX_DEPTH);
        T::deserialize(&mut msgpack)
            .map_err(|error| malformed_msgpack(ENCODING, self.source.position(), &self.place, error))
    }

    fn dataset(&mut self) -> Result<Dataset, FormatError> {
        self.place = Place::default();
        let header: DatasetHeader = self.object()?;
        self.place.hardware = Some(header.hardware.name.clone());
        header.hardware.validate().map_err(|invalid| self.refuse(invalid.to_string()))?;
        check_provenance(&header.provenance).map_err(|cause| self.refuse(cause))?;
        let configs = self.column("configs", &header.configs, |cursor| read_configs(cursor, MAX_CONFIGS))?;
        let count = configs.len();
        self.configs += count;
        if self.configs > MAX_CONFIGS_PER_FILE {
            return Err(self.refuse(too_many("configs", MAX_CONFIGS_PER_FILE)));
        }
        let configs: ConfigDictionary = configs.into_iter().collect();
        if configs.len() < count {
            return Err(self.refuse("a config dictionary that lists a config twice".to_owned()));
        }
        let mut dataset = Dataset {
            hardware: header.hardware,
            provenance: header.provenance,
            configs,
            solutions: Vec::new(),
        };
        let mut lists = Vec::new();
        for number in 1..=header.problems {
            self.place.problem = Some(usize::try_from(number).unwrap_or(usize::MAX));
            self.problems += 1;
            if self.problems > MAX_PROBLEMS_PER_FILE {
                return Err(self.refuse(too_many("problems", MAX_PROBLEMS_PER_FILE)));
            }
            let solution = self.solution(&dataset.configs, &mut lists)?;
            dataset.solutions.push(solution);
        }
        Ok(dataset)
    }

    fn solution(
        &mut self,
        dictionary: &ConfigDictionary,
        lists: &mut Vec<Vec<ConfigIndex>>,
    ) -> Result<Solution, FormatError> {
        let record: ProblemRecord = self.object()?;
        let rows = self.count("timings of one problem", record.rows, MAX_TIMINGS_PER_PROBLEM)?;
        self.add_timings(rows)?;
        if let Some(configs) = &record.configs {
            let indexes = self.column("configs", configs, |cursor| read_indexes(cursor, rows))?;
            lists.push(indexes.into_iter().map(ConfigIndex).collect());
        }
        let list = usize::try_from(record.list).ok().and_then(|number| lists.get(number));
        let Some(configs) = list.filter(|list| list.len() == rows) else {
            return Err(self.refuse(format!(
                "config list {}, expected one of the {} defined so far, of {rows} rows",
                record.list,
                lists.len()
            )));
        };
        let solution = Solution {
            problem: record.problem,
            method: record.method,
            configs: configs.clone(),
            times: self.column("times", &record.times, |cursor| read_times(cursor, rows))?,
            minimum_ns: self
                .optional("minimum_ns", &record.minimum_ns, |cursor| read_numbers(cursor, rows))?,
            spread_ns: self.optional("spread_ns", &record.spread_ns, |cursor| read_numbers(cursor, rows))?,
            repeats: self.optional("repeats", &record.repeats, |cursor| read_u32s(cursor, rows))?,
            failures: match &record.failures {
                Some(failures) => self.failures(failures)?,
                None => Vec::new(),
            },
        };
        solution.validate(dictionary).map_err(|invalid| self.refuse(invalid.to_string()))?;
        Ok(solution)
    }

    fn failures(&mut self, failures: &Failures) -> Result<Vec<Failure>, FormatError> {
        let rows = self.count("failures of one problem", failures.rows, MAX_TIMINGS_PER_PROBLEM)?;
        self.add_timings(rows)?;
        let configs = self.column("failures.configs", &failures.configs, |c| read_indexes(c, rows))?;
        let codes = self.column("failures.reasons", &failures.reasons, |c| read_u32s(c, rows))?;
        configs
            .into_iter()
            .zip(codes)
            .map(|(config, code)| {
                let reason = reason_from_code(code).map_err(|cause| self.refuse(cause))?;
                Ok(Failure { config: ConfigIndex(config), reason })
            })
            .collect()
    }

    fn column<T>(
        &self,
        name: &str,
        blob: &Blob,
        read: impl FnOnce(&mut Cursor<'_>) -> Result<T, Corrupt>,
    ) -> Result<T, FormatError> {
        let mut cursor = Cursor::new(&blob.0);
        let value = read(&mut cursor).and_then(|value| cursor.end().map(|()| value));
        value.map_err(|corrupt| self.refuse(format!("column {name}: {corrupt}")))
    }

    fn optional<T>(
        &self,
        name: &str,
        blob: &Option<Blob>,
        read: impl FnOnce(&mut Cursor<'_>) -> Result<T, Corrupt>,
    ) -> Result<Option<T>, FormatError> {
        blob.as_ref().map(|blob| self.column(name, blob, read)).transpose()
    }

    fn count(&self, what: &str, given: u64, limit: usize) -> Result<usize, FormatError> {
        usize::try_from(given)
            .ok()
            .filter(|&count| count <= limit)
            .ok_or_else(|| self.refuse(format!("{given} {what}, expected at most {limit}")))
    }

    fn add_timings(&mut self, rows: usize) -> Result<(), FormatError> {
        self.timings += rows;
        let limit = self.source.max_timings();
        if self.timings > limit {
            return Err(self.refuse(too_many_timings(limit)));
        }
        Ok(())
    }

    fn refuse(&self, cause: String) -> FormatError {
        FormatError::Malformed {
            state: "invalid",
            encoding: ENCODING,
            at: format!("byte {}", self.source.position()),
            place: self.place.to_string(),
            cause,
        }
    }
}

/// Checks the size of a provenance that was read from a file.
pub(crate) fn check_provenance(provenance: &Provenance) -> Result<(), String> {
    if provenance.node.len() > MAX_NODE_FACTS {
        return Err(format!("more than {MAX_NODE_FACTS} facts of the node"));
    }
    if texts(provenance).any(|text| text.len() > MAX_TEXT) {
        return Err(format!("a text of more than {MAX_TEXT} bytes in the provenance"));
    }
    Ok(())
}

/// Every text of a provenance, including the names of facts.
pub(crate) fn texts(provenance: &Provenance) -> impl Iterator<Item = &str> {
    let Provenance { tool, collected_at, node } = provenance;
    let facts = node.iter().flat_map(|(name, value)| [name, value]);
    tool.iter().chain(collected_at).chain(facts).map(String::as_str)
}
