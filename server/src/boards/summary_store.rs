//! The summary of a hardware, from its board entries.

use std::collections::BTreeSet;

use diode_api::HardwareSummary;
use diode_core::hardware::Hardware;
use diode_core::hardware::find;
use diode_core::ids::HardwareSlug;
use diode_core::stats::geometric_mean;
use diode_core::stats::median;
use diode_core::{Comparison, DType, Method, Op, Scaling};

use crate::boards::hardware_store::push_resolved;
use crate::boards::listed::{Board, Listed};
use crate::store::Store;
use crate::store::StoreResult;
use crate::store::fields::{readable_row, unsigned};
use crate::store::statement::Statement;

struct HardwareListRow {
    hardware: Hardware,
    updated_at: Option<String>,
    revision: i64,
    models: u64,
    confirmed: bool,
    conflicts: u64,
}

readable_row!(HardwareListRow {
    ..hardware: Hardware, updated_at, revision, models, confirmed: i64, conflicts
} => HardwareListRow {
    hardware,
    updated_at,
    revision,
    models: unsigned("model count", models)?,
    confirmed: confirmed != 0,
    conflicts: unsigned("upload count", conflicts)?,
});

/// Figures computed from the entries of one hardware.
#[derive(Clone)]
pub(crate) struct SummaryFigures {
    problems: u64,
    solutions: u64,
    timings: u64,
    ops: Vec<Op>,
    dtypes: Vec<DType>,
    scalings: Vec<Scaling>,
    methods: Vec<Method>,
    best_tflops: Option<f64>,
    method: Option<Method>,
    median_roofline_share: Option<f64>,
    gain_over_defaults: Option<f64>,
    triton_gain_over_defaults: Option<f64>,
    comparison: Comparison,
}

impl Store {
    /// All hardware that has data or models, in the order of slugs. Empty on a new database.
    pub async fn hardware_list(&self) -> StoreResult<Vec<HardwareSummary>> {
        self.hardware_summaries(None).await
    }

    /// One kind of hardware with its figures; `None` if there are neither data nor models for it.
    pub async fn hardware_summary(&self, slug: &HardwareSlug) -> StoreResult<Option<HardwareSummary>> {
        Ok(self.hardware_summaries(Some(slug)).await?.pop())
    }

    /// All hardware that was not merged into another, or only the hardware with a given slug. Hardware without a model
    /// and without a solution that counts is left out.
    async fn hardware_summaries(&self, slug: Option<&HardwareSlug>) -> StoreResult<Vec<HardwareSummary>> {
        let mut select = Statement::new(
            "SELECT h.slug, h.name, h.vendor, h.facts, h.updated_at, h.revision, h.confirmed, h.conflicts, \
             (SELECT COUNT(*) FROM models WHERE models.hardware = h.slug) AS models FROM hardware h",
        );
        select = match slug {
            Some(slug) => push_resolved(select.push(" WHERE h.slug = "), slug),
            None => select.push(" WHERE h.merged_into IS NULL"),
        };
        select = select.push(
            " AND (EXISTS (SELECT 1 FROM models WHERE models.hardware = h.slug) \
             OR EXISTS (SELECT 1 FROM solutions s WHERE s.hardware = h.slug AND s.standing = 0))",
        );
        let rows: Vec<HardwareListRow> =
            self.reader().await?.read_all(select.push(" ORDER BY h.slug")).await?;
        let mut summaries = Vec::with_capacity(rows.len());
        for row in rows {
            let models = row.models;
            let conflicting_uploads = row.conflicts;
            let hardware = row.hardware;
            let is_listed = find(hardware.slug.as_str()).is_some_and(|listed| listed.slug == hardware.slug);
            let figures = match self.figures.get(&hardware.slug, row.revision) {
                Some(figures) => figures,
                None => {
                    let board = self.board(&hardware.slug).await?;
                    let figures = SummaryFigures::of(&board);
                    self.figures.put(hardware.slug.clone(), board.revision, figures.clone());
                    figures
                }
            };
            summaries.push(HardwareSummary {
                hardware,
                problems: figures.problems,
                solutions: figures.solutions,
                timings: figures.timings,
                ops: figures.ops,
                dtypes: figures.dtypes,
                scalings: figures.scalings,
                methods: figures.methods,
                best_tflops: figures.best_tflops,
                method: figures.method,
                median_roofline_share: figures.median_roofline_share,
                gain_over_defaults: figures.gain_over_defaults,
                triton_gain_over_defaults: figures.triton_gain_over_defaults,
                comparison: figures.comparison,
                updated_at: row.updated_at,
                models,
                confirmed: row.confirmed || is_listed,
                // The facts of hardware in the catalogue are known, so conflicting statements do not matter.
                conflicting_uploads: if is_listed { 0 } else { conflicting_uploads },
            });
        }
        Ok(summaries)
    }
}

impl SummaryFigures {
    fn of(board: &Board) -> Self {
        let entries = &board.entries;
        let methods = distinct(entries, |entry| entry.method);
        let method = Method::shown_first(&methods);
        let shown = || entries.iter().filter(|entry| Some(entry.method) == method);
        let mut shares: Vec<f64> = shown().filter_map(|entry| entry.best.roofline_share).collect();
        let gains: Vec<f64> = shown().filter_map(|entry| entry.best.gain).collect();
        let triton_gains: Vec<f64> = shown().filter_map(|entry| entry.triton?.gain).collect();
        let ratios: Vec<f64> = shown().filter_map(|entry| entry.triton_over_library).collect();
        Self {
            problems: entries.chunk_by(|a, b| a.id == b.id).count() as u64,
            solutions: entries.iter().map(|entry| entry.solutions).sum(),
            timings: entries.iter().map(|entry| entry.timings).sum(),
            ops: distinct(entries, |entry| entry.problem.op),
            dtypes: distinct(entries, |entry| entry.problem.a_dtype),
            scalings: distinct(entries, |entry| entry.problem.scaling),
            methods,
            best_tflops: entries.iter().filter_map(|entry| entry.best.tflops).max_by(f64::total_cmp),
            method,
            median_roofline_share: median(&mut shares),
            gain_over_defaults: geometric_mean(&gains),
            triton_gain_over_defaults: geometric_mean(&triton_gains),
            comparison: Comparison::from_ratios(&ratios),
        }
    }
}

fn distinct<T: Ord>(entries: &[Listed], of: impl Fn(&Listed) -> T) -> Vec<T> {
    entries.iter().map(of).collect::<BTreeSet<T>>().into_iter().collect()
}
