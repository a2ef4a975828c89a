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
use crate::page_cache::Remembered;
use crate::store::Store;
use crate::store::StoreResult;
use crate::store::connection::Connection;
use crate::store::fields::{named, readable_row, unsigned};
use crate::store::statement::Statement;
use crate::uploads::solutions::Damaged;

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

/// The entries of one op, type and method together.
struct GroupRow {
    op: String,
    a_dtype: String,
    scaling: String,
    method: String,
    tflops: Option<f64>,
    timings: i64,
    solutions: i64,
}

readable_row!(GroupRow { op, a_dtype, scaling, method, tflops, timings, solutions });

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
        self.read_transaction().await?.hardware_summaries(&self.figures, None).await
    }

    /// One kind of hardware with its figures; `None` if there are neither data nor models for it.
    pub async fn hardware_summary(&self, slug: &HardwareSlug) -> StoreResult<Option<HardwareSummary>> {
        Ok(self.read_transaction().await?.hardware_summaries(&self.figures, Some(slug)).await?.pop())
    }
}

impl Connection {
    /// All hardware that was not merged into another, or only the hardware with a given slug. Hardware without a model
    /// and without a solution that counts is left out. `db` must be a transaction whose queries all see the same state.
    pub(crate) async fn hardware_summaries(
        &mut self,
        memory: &Remembered<HardwareSlug, SummaryFigures>,
        slug: Option<&HardwareSlug>,
    ) -> StoreResult<Vec<HardwareSummary>> {
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
        let rows: Vec<HardwareListRow> = self.read_all(select.push(" ORDER BY h.slug")).await?;
        let mut summaries = Vec::with_capacity(rows.len());
        for row in rows {
            let models = row.models;
            let conflicting_uploads = row.conflicts;
            let hardware = row.hardware;
            let is_listed = find(hardware.slug.as_str()).is_some_and(|listed| listed.slug == hardware.slug);
            let figures = match memory.get(&hardware.slug, row.revision) {
                Some(figures) => figures,
                None => {
                    let figures = self.summary_figures(&hardware.slug).await?;
                    memory.put(hardware.slug.clone(), row.revision, figures.clone());
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

    async fn summary_figures(&mut self, slug: &HardwareSlug) -> StoreResult<SummaryFigures> {
        let select = Statement::new(
            "SELECT op, a_dtype, scaling, method, MAX(tflops) AS tflops, \
             CAST(SUM(timings) AS BIGINT) AS timings, CAST(SUM(solutions) AS BIGINT) AS solutions FROM entries WHERE hardware = $1 \
             GROUP BY op, a_dtype, scaling, method",
        );
        let groups: Vec<GroupRow> = self.read_all(select.bind(slug.as_str())).await?;
        let select = Statement::new("SELECT COUNT(DISTINCT problem) FROM entries WHERE hardware = $1");
        let (problems,): (i64,) = self.fetch_one(select.bind(slug.as_str())).await?;
        let methods = distinct("method", &groups, |group| &group.method)?;
        let method = Method::shown_first(&methods);
        let of_method = |select: &'static str| {
            let select = Statement::new(select).bind(slug.as_str());
            select.bind(method.map(|method| method.to_string()))
        };
        let select =
            "SELECT roofline_share FROM entries WHERE hardware = $1 AND roofline_share >= 0 AND method = $2";
        let mut shares = self.fetch_numbers(of_method(select)).await?;
        let select = "SELECT gain_over_defaults FROM entries WHERE hardware = $1 AND gain_over_defaults >= \
                      0 AND method = $2";
        let gains = self.fetch_numbers(of_method(select)).await?;
        let select =
            "SELECT triton_gain FROM entries WHERE hardware = $1 AND triton_gain >= 0 AND method = $2";
        let triton_gains = self.fetch_numbers(of_method(select)).await?;
        let select = "SELECT triton_over_library FROM entries WHERE hardware = $1 AND triton_over_library \
                      >= 0 \
                      AND method = $2";
        let ratios = self.fetch_numbers(of_method(select)).await?;
        Ok(SummaryFigures {
            problems: unsigned("problem count", problems)?,
            solutions: unsigned("solution count", groups.iter().map(|group| group.solutions).sum())?,
            timings: unsigned("timing count", groups.iter().map(|group| group.timings).sum())?,
            ops: distinct("op", &groups, |group| &group.op)?,
            dtypes: distinct("dtype", &groups, |group| &group.a_dtype)?,
            scalings: distinct("scaling", &groups, |group| &group.scaling)?,
            methods,
            best_tflops: groups.iter().filter_map(|group| group.tflops).max_by(f64::total_cmp),
            method,
            median_roofline_share: median(&mut shares),
            gain_over_defaults: geometric_mean(&gains),
            triton_gain_over_defaults: geometric_mean(&triton_gains),
            comparison: Comparison::from_ratios(&ratios),
        })
    }

    pub(crate) async fn fetch_numbers(&mut self, select: Statement) -> StoreResult<Vec<f64>> {
        let rows: Vec<(f64,)> = self.fetch_all(select).await?;
        Ok(rows.into_iter().map(|(number,)| number).collect())
    }
}

fn distinct<T>(
    what: &'static str,
    groups: &[GroupRow],
    text: impl Fn(&GroupRow) -> &String,
) -> Result<Vec<T>, Damaged>
where
    T: std::str::FromStr<Err = diode_core::Invalid> + Ord,
{
    let texts: BTreeSet<&String> = groups.iter().map(text).collect();
    let values: BTreeSet<T> = texts.into_iter().map(|text| named(what, text)).collect::<Result<_, _>>()?;
    Ok(values.into_iter().collect())
}
