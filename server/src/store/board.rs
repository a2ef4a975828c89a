//! The leaderboard's query: filters, keyset pages, ties broken the same way everywhere.

use diode_core::api::{LeaderboardQuery, LeaderboardRow, LeaderboardSort, Page, SortOrder};
use diode_core::ids::HardwareSlug;
use sqlx::{Database, QueryBuilder};

use super::batches::Bind;
use super::rows::{count, unsigned};
use super::summaries::BoardRow;
use super::{BoardQuery, Cursor, StoreResult};

const FROM: &str = " FROM entries e JOIN problems p ON p.id = e.problem WHERE e.hardware = ";

fn value(sort: LeaderboardSort) -> &'static str {
    match sort {
        LeaderboardSort::Tflops => "e.tflops",
        LeaderboardSort::Time => "e.best_ns",
        LeaderboardSort::Roofline => "e.roofline_share",
        LeaderboardSort::Gain => "e.gain_over_defaults",
        LeaderboardSort::Flops => "p.flops",
    }
}

/// Counts the rows of all pages.
pub(super) fn total<DB: Database>(slug: &HardwareSlug, query: &BoardQuery) -> QueryBuilder<DB>
where
    String: Bind<DB>,
    i64: Bind<DB>,
{
    let mut sql = QueryBuilder::new("SELECT COUNT(*)");
    push_filter(&mut sql, slug, &query.filter);
    sql
}

/// Selects one page and the row after it, which tells whether there is another.
pub(super) fn page<DB: Database>(slug: &HardwareSlug, query: &BoardQuery) -> QueryBuilder<DB>
where
    String: Bind<DB>,
    i64: Bind<DB>,
    f64: Bind<DB>,
{
    let value = value(query.sort);
    let mut sql = QueryBuilder::new(
        "SELECT p.fields, e.method, e.best, e.best_ns, e.tflops, e.roofline_share, e.gain_over_defaults, \
         e.library_ns, e.configs, e.timings, e.solutions, ",
    );
    sql.push(value).push(" AS value");
    push_filter(&mut sql, slug, &query.filter);
    if let Some(cursor) = &query.after {
        push_after(&mut sql, value, query.order, cursor);
    }
    let direction = match query.order {
        SortOrder::Descending => "DESC",
        SortOrder::Ascending => "ASC",
    };
    sql.push(format_args!(" ORDER BY ({value} IS NULL), {value} {direction}, e.problem, e.method LIMIT "));
    sql.push_bind(i64::from(query.limit) + 1);
    sql
}

fn push_filter<DB: Database>(sql: &mut QueryBuilder<DB>, slug: &HardwareSlug, filter: &LeaderboardQuery)
where
    String: Bind<DB>,
    i64: Bind<DB>,
{
    sql.push(FROM).push_bind(slug.to_string());
    let texts = [
        (" AND p.op = ", filter.op.map(|v| v.to_string())),
        (" AND p.a_dtype = ", filter.dtype.map(|v| v.to_string())),
        (" AND p.b_layout = ", filter.b_layout.map(|v| v.to_string())),
        (" AND e.method = ", filter.method.map(|v| v.to_string())),
    ];
    for (condition, text) in texts {
        if let Some(text) = text {
            sql.push(condition).push_bind(text);
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
            sql.push(condition).push_bind(count(bound));
        }
    }
}

fn push_after<DB: Database>(sql: &mut QueryBuilder<DB>, value: &str, order: SortOrder, cursor: &Cursor)
where
    String: Bind<DB>,
    f64: Bind<DB>,
{
    match cursor.value {
        Some(last) => {
            let beyond = match order {
                SortOrder::Descending => "<",
                SortOrder::Ascending => ">",
            };
            sql.push(format_args!(" AND ({value} IS NULL OR {value} {beyond} ")).push_bind(last);
            sql.push(format_args!(" OR ({value} = ")).push_bind(last);
        }
        None => {
            sql.push(format_args!(" AND (({value} IS NULL"));
        }
    }
    sql.push(" AND (e.problem, e.method) > (").push_bind(cursor.problem.to_string());
    sql.push(", ").push_bind(cursor.method.to_string()).push(")))");
}

/// Makes a page of the rows that [`page`] selected.
pub(super) fn assemble(
    query: &BoardQuery,
    total: i64,
    rows: Vec<BoardRow>,
) -> StoreResult<Page<LeaderboardRow>> {
    let limit = query.limit as usize;
    let more = rows.len() > limit;
    let rows: StoreResult<Vec<_>> = rows.into_iter().take(limit).map(BoardRow::row).collect();
    let (items, cursors): (Vec<_>, Vec<Cursor>) = rows?.into_iter().unzip();
    let last = cursors.last().filter(|_| more);
    Ok(Page {
        items,
        total: unsigned("row count", total)?,
        next_cursor: last.map(|cursor| cursor.encode(query.sort, query.order)),
    })
}
