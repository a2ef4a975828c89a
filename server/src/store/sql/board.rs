//! The leaderboard's query: filters, keyset pages, ties broken the same way everywhere.

use diode_core::api::{LeaderboardQuery, LeaderboardRow, LeaderboardSort, Page, SortOrder};
use diode_core::ids::HardwareSlug;

use super::board_entries::EntryRow;
use super::connection::Connection;
use super::fields::{parse, unsigned};
use super::from_row::from_row;
use super::problems::problem_of;
use super::statement::Statement;
use super::summaries::micros;
use crate::solutions::Damaged;
use crate::store::cursor::Cursor;
use crate::store::error::StoreResult;
use crate::store::types::BoardQuery;

struct BoardRow {
    fields: String,
    method: String,
    /// What the board is sorted by.
    value: Option<f64>,
    entry: EntryRow,
}

from_row!(BoardRow { fields, method, value, ..entry });

impl BoardRow {
    /// The row, and the cursor of a page that ends with it.
    fn row(self) -> Result<(LeaderboardRow, Cursor), Damaged> {
        let problem = problem_of(&self.fields)?;
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

/// Both queries must see the same state.
pub(super) async fn leaderboard(
    db: &mut impl Connection,
    slug: &HardwareSlug,
    query: &BoardQuery,
) -> StoreResult<Page<LeaderboardRow>> {
    let total = push_filter(Statement::new("SELECT COUNT(*)"), slug, &query.filter);
    let (total,): (i64,) = db.fetch_one(total).await?;
    let rows: Vec<BoardRow> = db.fetch_all(page(slug, query)).await?;

    let limit = query.limit as usize;
    let more = rows.len() > limit;
    let rows: Result<Vec<_>, Damaged> = rows.into_iter().take(limit).map(BoardRow::row).collect();
    let (items, cursors): (Vec<_>, Vec<Cursor>) = rows?.into_iter().unzip();
    let last = cursors.last().filter(|_| more);
    Ok(Page {
        items,
        total: unsigned("row count", total)?,
        next_cursor: last.map(|cursor| cursor.encode(query.sort, query.order)),
    })
}

/// Selects one page and the row after it, which tells whether there is another.
fn page(slug: &HardwareSlug, query: &BoardQuery) -> Statement {
    let value = value(query.sort);
    let select = Statement::new(
        "SELECT p.fields, e.method, e.best, e.best_ns, e.tflops, e.roofline_share, e.gain_over_defaults, \
         e.library_ns, e.configs, e.timings, e.solutions, ",
    );
    let mut select = push_filter(select.push(value).push(" AS value"), slug, &query.filter);
    if let Some(cursor) = &query.after {
        select = push_after(select, value, query.order, cursor);
    }
    let direction = match query.order {
        SortOrder::Descending => " DESC",
        SortOrder::Ascending => " ASC",
    };
    select
        .push(" ORDER BY (")
        .push(value)
        .push(" IS NULL), ")
        .push(value)
        .push(direction)
        .push(", e.problem, e.method LIMIT ")
        .push_bind(i64::from(query.limit) + 1)
}

fn value(sort: LeaderboardSort) -> &'static str {
    match sort {
        LeaderboardSort::Tflops => "e.tflops",
        LeaderboardSort::Time => "e.best_ns",
        LeaderboardSort::Roofline => "e.roofline_share",
        LeaderboardSort::Gain => "e.gain_over_defaults",
        LeaderboardSort::Flops => "p.flops",
    }
}

fn push_filter(select: Statement, slug: &HardwareSlug, filter: &LeaderboardQuery) -> Statement {
    let mut select = select
        .push(" FROM entries e JOIN problems p ON p.id = e.problem WHERE e.hardware = ")
        .push_bind(slug.as_str());
    let texts = [
        (" AND p.op = ", filter.op.map(|v| v.to_string())),
        (" AND p.a_dtype = ", filter.dtype.map(|v| v.to_string())),
        (" AND p.b_layout = ", filter.b_layout.map(|v| v.to_string())),
        (" AND e.method = ", filter.method.map(|v| v.to_string())),
    ];
    for (condition, text) in texts {
        if let Some(text) = text {
            select = select.push(condition).push_bind(text);
        }
    }
    let bounds = [
        (" AND p.m >= ", filter.min_m),
        (" AND p.m <= ", filter.max_m),
        (" AND p.n >= ", filter.min_n),
        (" AND p.n <= ", filter.max_n),
        (" AND p.k >= ", filter.min_k),
        (" AND p.k <= ", filter.max_k),
    ];
    for (condition, bound) in bounds {
        if let Some(bound) = bound {
            select = select.push(condition).push_bind(bound);
        }
    }
    select
}

fn push_after(select: Statement, value: &'static str, order: SortOrder, cursor: &Cursor) -> Statement {
    let beyond = match order {
        SortOrder::Descending => " < ",
        SortOrder::Ascending => " > ",
    };
    let select = select.push(" AND (").push(value).push(" IS NULL");
    let select = match cursor.value {
        Some(last) => {
            let select = select.push(" OR ").push(value).push(beyond).push_bind(last);
            select.push(" OR ").push(value).push(" = ").push_bind(last)
        }
        None => select,
    };
    // AND binds tighter than the ORs before it.
    select
        .push(" AND (e.problem, e.method) > (")
        .push_bind(cursor.problem.as_str())
        .push(", ")
        .push_bind(cursor.method.to_string())
        .push("))")
}
