//! Rows of lists that people see: hardware, leaderboards, charts.

use std::collections::{BTreeMap, BTreeSet};

use diode_core::api::{HardwareSummary, LeaderboardRow, ProblemPoint};
use diode_core::hardware::Hardware;
use diode_core::{Micros, Nanos};

use super::from_row::from_row;
use super::rows::{EntryRow, HardwareRow, parse, problem, unsigned};
use super::{Cursor, StoreError, StoreResult};
use crate::consensus::median;

pub(super) struct HardwareListRow {
    hardware: HardwareRow,
    updated_at: Option<String>,
    models: i64,
}

from_row!(HardwareListRow { updated_at, models, ..hardware });

/// One entry, as far as the summary of its hardware needs it.
pub(super) struct FigureRow {
    hardware: String,
    problem: String,
    op: String,
    a_dtype: String,
    method: String,
    tflops: f64,
    roofline_share: Option<f64>,
    gain_over_defaults: Option<f64>,
    timings: i64,
    solutions: i64,
}

from_row!(FigureRow {
    hardware,
    problem,
    op,
    a_dtype,
    method,
    tflops,
    roofline_share,
    gain_over_defaults,
    timings,
    solutions
});

/// Folds the entries of each hardware into its summary, by slug.
pub(super) fn hardware_summaries(
    hardware: Vec<HardwareListRow>,
    figures: Vec<FigureRow>,
) -> StoreResult<Vec<HardwareSummary>> {
    let mut by_slug: BTreeMap<String, Vec<FigureRow>> = BTreeMap::new();
    for figure in figures {
        by_slug.entry(figure.hardware.clone()).or_default().push(figure);
    }
    let mut summaries = Vec::with_capacity(hardware.len());
    for row in hardware {
        let models = unsigned("model count", row.models)?;
        let hardware = row.hardware.hardware()?;
        let figures = by_slug.remove(hardware.slug.as_str()).unwrap_or_default();
        summaries.push(summary(hardware, &figures, row.updated_at, models)?);
    }
    Ok(summaries)
}

fn summary(
    hardware: Hardware,
    figures: &[FigureRow],
    updated_at: Option<String>,
    models: u64,
) -> StoreResult<HardwareSummary> {
    let mut shares: Vec<f64> = figures.iter().filter_map(|f| f.roofline_share).collect();
    let gains: Vec<f64> = figures.iter().filter_map(|f| f.gain_over_defaults).collect();
    let mean_log_gain = gains.iter().map(|gain| gain.ln()).sum::<f64>() / gains.len() as f64;
    Ok(HardwareSummary {
        hardware,
        problems: figures.iter().map(|f| &f.problem).collect::<BTreeSet<_>>().len() as u64,
        solutions: unsigned("solution count", figures.iter().map(|f| f.solutions).sum())?,
        timings: unsigned("timing count", figures.iter().map(|f| f.timings).sum())?,
        ops: distinct("op", figures, |f| &f.op)?,
        dtypes: distinct("dtype", figures, |f| &f.a_dtype)?,
        methods: distinct("method", figures, |f| &f.method)?,
        best_tflops: figures.iter().map(|f| f.tflops).max_by(f64::total_cmp),
        median_roofline_share: (!shares.is_empty()).then(|| median(&mut shares)),
        gain_over_defaults: (!gains.is_empty()).then(|| mean_log_gain.exp()),
        updated_at,
        models,
    })
}

fn distinct<T>(
    what: &'static str,
    figures: &[FigureRow],
    text: impl Fn(&FigureRow) -> &String,
) -> StoreResult<Vec<T>>
where
    T: std::str::FromStr<Err = diode_core::Invalid> + Ord,
{
    let texts: BTreeSet<&String> = figures.iter().map(text).collect();
    let values: Result<BTreeSet<T>, _> = texts.into_iter().map(|text| text.parse()).collect();
    let values = values.map_err(|error| StoreError::Damaged { what, reason: error.to_string() })?;
    Ok(values.into_iter().collect())
}

pub(super) struct BoardRow {
    fields: String,
    method: String,
    /// What the board is sorted by.
    value: Option<f64>,
    entry: EntryRow,
}

from_row!(BoardRow { fields, method, value, ..entry });

impl BoardRow {
    /// The row, and the cursor of a page that ends with it.
    pub(super) fn row(self) -> StoreResult<(LeaderboardRow, Cursor)> {
        let problem = problem(&self.fields)?;
        let entry = self.entry.entry()?;
        let row = LeaderboardRow {
            problem_id: problem.id(),
            problem,
            method: parse("method", self.method)?,
            best: entry.best,
            best_us: micros(entry.best_ns),
            tflops: entry.tflops,
            roofline_share: entry.roofline_share,
            gain_over_defaults: entry.gain_over_defaults,
            library_us: entry.library_ns.map(micros),
            configs: entry.configs,
            solutions: entry.solutions,
        };
        let cursor = Cursor { value: self.value, problem: row.problem_id.clone(), method: row.method };
        Ok((row, cursor))
    }
}

pub(super) struct PointRow {
    fields: String,
    tflops: f64,
    best_ns: f64,
}

from_row!(PointRow { fields, tflops, best_ns });

impl PointRow {
    pub(super) fn point(self) -> StoreResult<ProblemPoint> {
        let problem = problem(&self.fields)?;
        Ok(ProblemPoint {
            problem_id: problem.id(),
            dims: problem.dims(),
            intensity: problem.flops() / problem.bytes(),
            tflops: self.tflops,
            best_us: micros(self.best_ns),
        })
    }
}

fn micros(nanos: f64) -> f64 {
    let Micros(value) = Nanos(nanos).micros();
    value
}
