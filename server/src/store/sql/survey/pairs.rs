//! The board entries of one hardware, alone, and in pairs with the entries of another hardware.

use diode_api::{Kernels, MethodOn, ProblemFilter, TimedConfig};
use diode_core::Config;
use diode_core::ids::{HardwareSlug, ProblemId};

use crate::consensus::KernelEntry;
use crate::solutions::Damaged;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::{parse, unsigned};
use crate::store::sql::entry_row;
use crate::store::sql::filter::push_filter;
use crate::store::sql::problems::problem_of;
use crate::store::sql::summaries::micros;
use crate::store::statement::Statement;
use crate::store::survey::{Pair, Sample};

pub(super) async fn triton_problems(
    db: &mut Connection,
    slug: &HardwareSlug,
    filter: &ProblemFilter,
    cap: u32,
) -> StoreResult<Sample<ProblemId>> {
    let total = timed_problems(db, slug, Kernels::Triton, filter).await?;
    let select = Statement::new("SELECT e.problem FROM entries e");
    let select = push_filter(select, slug, filter).push(time_condition(Kernels::Triton));
    // Ids are digests, so the first ids are an even sample.
    let select = select.push(" ORDER BY e.problem LIMIT ").push_bind(i64::from(cap));
    let rows: Vec<(String,)> = db.fetch_all(select).await?;
    let ids = rows.into_iter().map(|(id,)| parse("problem id", id));
    Ok(Sample { total, items: ids.collect::<Result<_, _>>()? })
}

pub(super) async fn timed_problems(
    db: &mut Connection,
    slug: &HardwareSlug,
    kernels: Kernels,
    filter: &ProblemFilter,
) -> StoreResult<u64> {
    let count = Statement::new("SELECT COUNT(DISTINCT e.problem) FROM entries e");
    let count = push_filter(count, slug, filter).push(time_condition(kernels));
    let (count,): (i64,) = db.fetch_one(count).await?;
    Ok(unsigned("problem count", count)?)
}

/// The problem, and the two entries.
type PairRow = (String, String, String);

pub(super) async fn pairs(
    db: &mut Connection,
    [a, b]: [&MethodOn; 2],
    kernels: Kernels,
    filter: &ProblemFilter,
    cap: u32,
) -> StoreResult<Sample<Pair>> {
    let filter = &ProblemFilter { method: Some(a.method), ..*filter };
    let joined = |select: &'static str| {
        let select = Statement::new(select).push(" FROM entries e JOIN entries o ON o.hardware = ");
        let select = select.push_bind(b.hardware.as_str()).push(" AND o.method = ");
        let select = select.push_bind(b.method.to_string());
        let select = select.push(" AND o.problem = e.problem JOIN problems p ON p.id = e.problem");
        push_filter(select, &a.hardware, filter)
            .push(time_condition(kernels))
            .push(other_time_condition(kernels))
    };
    let (total,): (i64,) = db.fetch_one(joined("SELECT COUNT(*)")).await?;
    let select = joined("SELECT p.fields, e.entry, o.entry")
        .push(" ORDER BY e.problem, e.method LIMIT ")
        .push_bind(i64::from(cap));
    let rows: Vec<PairRow> = db.fetch_all(select).await?;
    let items = rows.into_iter().map(|row| pair(row, kernels)).collect::<Result<_, _>>()?;
    Ok(Sample { total: unsigned("problem count", total)?, items })
}

fn pair((fields, a, b): PairRow, kernels: Kernels) -> Result<Pair, Damaged> {
    let timed = |entry: &str| -> Result<TimedConfig, Damaged> {
        let entry = entry_row::read(entry)?;
        let of = |kernel: Option<KernelEntry>| kernel.map(|kernel| (kernel.config, kernel.ns));
        let (config, ns) = match kernels {
            Kernels::Triton => of(entry.triton),
            Kernels::Library => of(entry.library).map(|(_, ns)| (Config::Library, ns)),
            Kernels::Everything => Some((entry.best, entry.best_ns)),
        }
        .ok_or_else(|| Damaged::new("board entry", "the kernels have no time"))?;
        Ok(TimedConfig { config, us: micros(ns) })
    };
    Ok(Pair { problem: problem_of(&fields)?, a: timed(&a)?, b: timed(&b)? })
}

/// The condition that the kernels have a time. No time is negative.
fn time_condition(kernels: Kernels) -> &'static str {
    match kernels {
        Kernels::Triton => " AND e.triton_ns >= 0",
        Kernels::Library => " AND e.library_ns >= 0",
        Kernels::Everything => " AND e.best_ns >= 0",
    }
}

fn other_time_condition(kernels: Kernels) -> &'static str {
    match kernels {
        Kernels::Triton => " AND o.triton_ns >= 0",
        Kernels::Library => " AND o.library_ns >= 0",
        Kernels::Everything => " AND o.best_ns >= 0",
    }
}
