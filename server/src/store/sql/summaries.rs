//! The summary of a hardware, from its board entries.

use std::collections::{BTreeMap, BTreeSet};

use diode_core::api::HardwareSummary;
use diode_core::hardware::Hardware;
use diode_core::ids::HardwareSlug;
use diode_core::stats::median;
use diode_core::{Micros, Nanos};

use super::connection::Connection;
use super::fields::{named, unsigned};
use super::from_row::from_row;
use super::hardware::HardwareRow;
use super::statement::Statement;
use crate::solutions::Damaged;
use crate::store::error::StoreResult;

struct HardwareListRow {
    hardware: HardwareRow,
    updated_at: Option<String>,
    models: i64,
}

from_row!(HardwareListRow { updated_at, models, ..hardware });

/// One entry, as far as the summary of its hardware needs it.
struct FigureRow {
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

/// All hardware, or the one of a slug. Both queries must see the same state.
pub(super) async fn list(
    db: &mut impl Connection,
    slug: Option<&HardwareSlug>,
) -> StoreResult<Vec<HardwareSummary>> {
    let mut select = Statement::new(
        "SELECT h.slug, h.name, h.vendor, h.facts, h.updated_at, \
         (SELECT COUNT(*) FROM models WHERE models.hardware = h.slug) AS models FROM hardware h",
    );
    if let Some(slug) = slug {
        select = select.push(" WHERE h.slug = ").push_bind(slug.as_str());
    }
    let hardware: Vec<HardwareListRow> = db.fetch_all(select.push(" ORDER BY h.slug")).await?;
    let mut select = Statement::new(
        "SELECT e.hardware, e.problem, p.op, p.a_dtype, e.method, e.tflops, e.roofline_share, \
         e.gain_over_defaults, e.timings, e.solutions FROM entries e JOIN problems p ON p.id = e.problem",
    );
    if let Some(slug) = slug {
        select = select.push(" WHERE e.hardware = ").push_bind(slug.as_str());
    }
    let figures: Vec<FigureRow> = db.fetch_all(select).await?;
    Ok(fold(hardware, figures)?)
}

/// Folds the entries of each hardware into its summary, by slug.
fn fold(hardware: Vec<HardwareListRow>, figures: Vec<FigureRow>) -> Result<Vec<HardwareSummary>, Damaged> {
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
) -> Result<HardwareSummary, Damaged> {
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
        median_roofline_share: median(&mut shares),
        gain_over_defaults: (!gains.is_empty()).then(|| mean_log_gain.exp()),
        updated_at,
        models,
    })
}

fn distinct<T>(
    what: &'static str,
    figures: &[FigureRow],
    text: impl Fn(&FigureRow) -> &String,
) -> Result<Vec<T>, Damaged>
where
    T: std::str::FromStr<Err = diode_core::Invalid> + Ord,
{
    let texts: BTreeSet<&String> = figures.iter().map(text).collect();
    let values: BTreeSet<T> = texts.into_iter().map(|text| named(what, text)).collect::<Result<_, _>>()?;
    Ok(values.into_iter().collect())
}

pub(super) fn micros(nanos: f64) -> f64 {
    let Micros(value) = Nanos(nanos).micros();
    value
}
