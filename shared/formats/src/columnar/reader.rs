//! Reading columnar files.

use std::io::Read;

use diode_core::{ConfigDictionary, ConfigIndex, Dataset, Failure, Solution};
use serde::de::DeserializeOwned;

use super::ENCODING;
use super::records::{Blob, DatasetHeader, FORMAT, Failures, FileHeader, ProblemRecord, SCHEMA};
use crate::FormatError;
use crate::bytes::{Corrupt, Cursor};
use crate::check_before_writing::check_provenance;
use crate::columns::{read_indexes, read_numbers, read_times, read_u32s};
use crate::dictionary::{read_configs, reason_from_code};
use crate::error_place::Place;
use crate::input::malformed::malformed_msgpack;
use crate::input::source::Source;
use crate::limits::{
    MAX_CONFIGS, MAX_CONFIGS_PER_FILE, MAX_DATASETS, MAX_DEPTH, MAX_OBJECT, MAX_PROBLEMS_PER_FILE,
    MAX_TIMINGS_PER_PROBLEM, too_many, too_many_timings,
};

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
