//! Rows as both databases return them, and what they mean.

use diode_core::api::{Job, JobEvent, JobRequest, ModelSummary, Receipt};
use diode_core::hardware::Hardware;
use diode_core::{Config, Problem};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::from_row::from_row;
use super::{Claim, Entry, PackedSolution, StoreError, StoreResult, View};

/// A count or size as the databases hold it. Larger numbers than theirs do not occur.
pub(super) fn count(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(what: &'static str, value: i64) -> StoreResult<u64> {
    u64::try_from(value).map_err(|_| StoreError::Damaged { what, reason: format!("negative: {value}") })
}

/// JSON of a value that has no way to fail: no maps with odd keys, no floats out of range.
pub(super) fn json<T: Serialize>(what: &'static str, value: &T) -> StoreResult<String> {
    serde_json::to_string(value)
        .map_err(|error| StoreError::Damaged { what, reason: format!("not writable as JSON: {error}") })
}

pub(super) fn from_json<T: DeserializeOwned>(what: &'static str, text: &str) -> StoreResult<T> {
    serde_json::from_str(text).map_err(|error| StoreError::Damaged { what, reason: error.to_string() })
}

/// Reads a value from the text form of its type.
pub(super) fn parse<T>(what: &'static str, text: String) -> StoreResult<T>
where
    T: TryFrom<String, Error = diode_core::Invalid>,
{
    T::try_from(text).map_err(|error| StoreError::Damaged { what, reason: error.to_string() })
}

fn named<T: std::str::FromStr<Err = diode_core::Invalid>>(what: &'static str, text: &str) -> StoreResult<T> {
    text.parse().map_err(|error: diode_core::Invalid| StoreError::Damaged { what, reason: error.to_string() })
}

pub(super) fn problem(fields: &str) -> StoreResult<Problem> {
    from_json("problem", fields)
}

pub(super) struct UploadRow {
    id: String,
    digest: String,
    bytes: i64,
    format: String,
    received_at: String,
    hardware: String,
    new_solutions: i64,
    duplicate_solutions: i64,
}

from_row!(UploadRow { id, digest, bytes, format, received_at, hardware, new_solutions, duplicate_solutions });

impl UploadRow {
    /// The receipt of something that is stored already.
    pub(super) fn receipt(self) -> StoreResult<Receipt> {
        Ok(Receipt {
            id: parse("upload id", self.id)?,
            digest: parse("upload digest", self.digest)?,
            bytes: unsigned("upload size", self.bytes)?,
            format: self.format,
            received_at: self.received_at,
            hardware: from_json("upload's hardware", &self.hardware)?,
            new_solutions: unsigned("solution count", self.new_solutions)?,
            duplicate_solutions: unsigned("solution count", self.duplicate_solutions)?,
            already_stored: true,
        })
    }
}

pub(super) struct HardwareRow {
    slug: String,
    name: String,
    vendor: String,
    facts: Option<String>,
}

from_row!(HardwareRow { slug, name, vendor, facts });

impl HardwareRow {
    pub(super) fn hardware(self) -> StoreResult<Hardware> {
        Ok(Hardware {
            slug: parse("hardware slug", self.slug)?,
            name: self.name,
            vendor: named("vendor", &self.vendor)?,
            facts: self.facts.map(|facts| from_json("hardware facts", &facts)).transpose()?,
        })
    }
}

pub(super) struct EntryRow {
    best: String,
    best_ns: f64,
    tflops: f64,
    roofline_share: Option<f64>,
    gain_over_defaults: Option<f64>,
    library_ns: Option<f64>,
    configs: i64,
    timings: i64,
    solutions: i64,
}

from_row!(EntryRow {
    best,
    best_ns,
    tflops,
    roofline_share,
    gain_over_defaults,
    library_ns,
    configs,
    timings,
    solutions
});

impl EntryRow {
    pub(super) fn entry(self) -> StoreResult<Entry> {
        Ok(Entry {
            best: from_json::<Config>("best config", &self.best)?,
            best_ns: self.best_ns,
            tflops: self.tflops,
            roofline_share: self.roofline_share,
            gain_over_defaults: self.gain_over_defaults,
            library_ns: self.library_ns,
            configs: unsigned("config count", self.configs)?,
            timings: unsigned("timing count", self.timings)?,
            solutions: unsigned("solution count", self.solutions)?,
        })
    }
}

pub(super) struct SolutionRow {
    problem: String,
    method: String,
    config_list: String,
    columns: Vec<u8>,
}

from_row!(SolutionRow { problem, method, config_list, columns });

impl SolutionRow {
    pub(super) fn packed(self) -> StoreResult<PackedSolution> {
        Ok(PackedSolution {
            problem: parse("problem id", self.problem)?,
            method: parse("method", self.method)?,
            config_list: parse("config list digest", self.config_list)?,
            columns: self.columns,
        })
    }
}

pub(super) struct ModelRow {
    summary: String,
}

from_row!(ModelRow { summary });

impl ModelRow {
    pub(super) fn model(self) -> StoreResult<ModelSummary> {
        from_json("model summary", &self.summary)
    }
}

pub(super) struct JobRow {
    id: String,
    request: String,
    state: String,
    created_at: String,
    finished_at: Option<String>,
    error: Option<String>,
    model: Option<String>,
}

from_row!(JobRow { id, request, state, created_at, finished_at, error, model });

impl JobRow {
    pub(super) fn job(self) -> StoreResult<Job> {
        Ok(Job {
            id: parse("job id", self.id)?,
            request: from_json::<JobRequest>("job request", &self.request)?,
            state: named("job state", &self.state)?,
            created_at: self.created_at,
            finished_at: self.finished_at,
            error: self.error,
            model: self.model.map(|id| parse("model id", id)).transpose()?,
        })
    }
}

pub(super) struct EventRow {
    seq: i64,
    state: String,
    progress: f64,
    message: String,
}

from_row!(EventRow { seq, state, progress, message });

impl EventRow {
    pub(super) fn event(self) -> StoreResult<JobEvent> {
        Ok(JobEvent {
            seq: unsigned("event number", self.seq)?,
            state: named("job state", &self.state)?,
            progress: self.progress,
            message: self.message,
        })
    }
}

pub(super) fn view((hardware, problem, method): (String, String, String)) -> StoreResult<View> {
    Ok(View {
        hardware: parse("hardware slug", hardware)?,
        problem: parse("problem id", problem)?,
        method: parse("method", method)?,
    })
}

pub(super) struct ClaimRow {
    job: JobRow,
    attempt: i64,
}

from_row!(ClaimRow { attempt, ..job });

impl ClaimRow {
    pub(super) fn claim(self) -> StoreResult<Claim> {
        Ok(Claim { job: self.job.job()?, attempt: unsigned("attempt", self.attempt)? })
    }
}
