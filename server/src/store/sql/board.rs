//! The leaderboard's query: filters, keyset pages, and the same order of ties everywhere.

use diode_api::{Kernels, Leaderboard, LeaderboardRow, LeaderboardSort, ProblemFilter, SortOrder};
use diode_core::Comparison;
use diode_core::ids::HardwareSlug;

use super::entry_row;
use super::filter::push_filter;
use super::hardware;
use super::problems::problem_of;
use super::summaries::numbers;
use crate::solutions::Damaged;
use crate::store::connection::Connection;
use crate::store::cursor::Cursor;
use crate::store::error::StoreResult;
use crate::store::fields::{parse, unsigned};
use crate::store::from_row::from_row;
use crate::store::remembered::Remembered;
use crate::store::statement::Statement;
use crate::store::types::BoardQuery;

struct BoardRow {
    fields: String,
    method: String,
    entry: String,
    /// The row's value by which the board is sorted.
    value: Option<f64>,
}

from_row!(BoardRow { fields, method, entry, value });

impl BoardRow {
    /// The row, and the cursor of a page that ends with it.
    fn row(self) -> Result<(LeaderboardRow, Cursor), Damaged> {
        let method = parse("method", self.method)?;
        let row = entry_row::read(&self.entry)?.row(problem_of(&self.fields)?, method);
        let cursor = Cursor { value: self.value, problem: row.problem_id.clone(), method };
        Ok((row, cursor))
    }
}

/// `db` must be a transaction whose queries all see the same state.
pub(super) async fn leaderboard(
    db: &mut Connection,
    totals: &Remembered<Counted, Totals>,
    slug: &HardwareSlug,
    query: &BoardQuery,
) -> StoreResult<Leaderboard> {
    let Totals { rows: total, comparison } = self::totals(db, totals, slug, &query.filter).await?;
    let rows = rows(db, slug, query).await?;

    let limit = query.limit as usize;
    let more = rows.len() > limit;
    let rows: Result<Vec<_>, Damaged> = rows.into_iter().take(limit).map(BoardRow::row).collect();
    let (items, cursors): (Vec<_>, Vec<Cursor>) = rows?.into_iter().unzip();
    let last = cursors.last().filter(|_| more);
    let next_cursor = last.map(|cursor| cursor.encode(query.ranking));
    Ok(Leaderboard { items, total, next_cursor, comparison })
}

/// What [`Totals`] are computed of: the entries of a hardware that pass a filter.
pub(in crate::store) type Counted = (HardwareSlug, ProblemFilter);

/// The totals over all rows of a board.
#[derive(Clone, Copy, Default)]
pub(in crate::store) struct Totals {
    rows: u64,
    comparison: Comparison,
}

async fn totals(
    db: &mut Connection,
    totals: &Remembered<Counted, Totals>,
    slug: &HardwareSlug,
    filter: &ProblemFilter,
) -> StoreResult<Totals> {
    let Some(revision) = hardware::revision(db, slug).await? else { return Ok(Totals::default()) };
    let counted = (slug.clone(), filter.clone());
    if let Some(totals) = totals.get(&counted, revision) {
        return Ok(totals);
    }
    let count = push_filter(Statement::new("SELECT COUNT(*) FROM entries e"), slug, filter);
    let (rows,): (i64,) = db.fetch_one(count).await?;
    let ratios = push_filter(Statement::new("SELECT e.triton_over_library FROM entries e"), slug, filter);
    let ratios = numbers(db, ratios.push(" AND e.triton_over_library >= 0")).await?;
    let found = Totals { rows: unsigned("row count", rows)?, comparison: Comparison::of(&ratios) };
    totals.put(counted, revision, found);
    Ok(found)
}

/// One page and the row after it, which shows whether there is another page. Rows with the sort value come
/// first, from a query of their own. Both queries follow an index and stop at their limits.
async fn rows(db: &mut Connection, slug: &HardwareSlug, query: &BoardQuery) -> StoreResult<Vec<BoardRow>> {
    let wanted = i64::from(query.limit) + 1;
    let mut rows: Vec<BoardRow> = match &query.after {
        Some(Cursor { value: None, .. }) => Vec::new(),
        _ => db.fetch_all(page(slug, query, Part::WithValue, wanted)).await?,
    };
    let missing = wanted - rows.len() as i64;
    if missing > 0 {
        rows.extend(db.fetch_all(page(slug, query, Part::WithoutValue, missing)).await?);
    }
    Ok(rows)
}

/// The rows with the sort value, or the rows without it.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    WithValue,
    WithoutValue,
}

fn page(slug: &HardwareSlug, query: &BoardQuery, part: Part, limit: i64) -> Statement {
    let value = value(query.ranking.sort, query.ranking.kernels);
    let select = Statement::new("SELECT p.fields, e.method, e.entry, ").push(value);
    let select = select.push(" AS value FROM entries e JOIN problems p ON p.id = e.problem");
    let mut select = push_filter(select, slug, &query.filter).push(" AND ").push(value);
    // A bound instead of IS NOT NULL, because both databases look up a bound in the index. No value is
    // negative.
    select = select.push(match part {
        Part::WithValue => " >= 0",
        Part::WithoutValue => " IS NULL",
    });
    let (beyond, direction) = match query.ranking.order {
        SortOrder::Descending => (" < (", " DESC"),
        SortOrder::Ascending => (" > (", " ASC"),
    };
    match (&query.after, part) {
        (Some(Cursor { value: Some(last), problem, method }), Part::WithValue) => {
            select = select.push(" AND (").push(value).push(", e.problem, e.method)").push(beyond);
            select = select.push_bind(*last).push(", ").push_bind(problem.as_str());
            select = select.push(", ").push_bind(method.to_string()).push(")");
        }
        (Some(Cursor { value: None, problem, method }), Part::WithoutValue) => {
            select = select.push(" AND (e.problem, e.method)").push(beyond).push_bind(problem.as_str());
            select = select.push(", ").push_bind(method.to_string()).push(")");
        }
        _ => {}
    }
    // The columns that break ties have the same direction, so that one index gives the whole order.
    select = select.push(" ORDER BY ").push(value).push(direction);
    select = select.push(", e.problem").push(direction).push(", e.method").push(direction);
    select.push(" LIMIT ").push_bind(limit)
}

/// Each of these columns has an index.
fn value(sort: LeaderboardSort, kernels: Kernels) -> &'static str {
    use {Kernels as K, LeaderboardSort as S};
    match (sort, kernels) {
        (S::Tflops, K::Everything) => "e.tflops",
        (S::Tflops, K::Triton) => "e.triton_tflops",
        (S::Tflops, K::Library) => "e.library_tflops",
        (S::Time, K::Everything) => "e.best_ns",
        (S::Time, K::Triton) => "e.triton_ns",
        (S::Time, K::Library) => "e.library_ns",
        (S::Roofline, K::Everything) => "e.roofline_share",
        (S::Roofline, K::Triton) => "e.triton_roofline_share",
        (S::Roofline, K::Library) => "e.library_roofline_share",
        (S::Gain, K::Everything) => "e.gain_over_defaults",
        (S::Gain, K::Triton) => "e.triton_gain",
        (S::Gain, K::Library) => "e.library_gain",
        (S::Ratio, _) => "e.triton_over_library",
        (S::Flops, _) => "e.flops",
    }
}
