//! Board entries: read one, and recompute those that an upload touches.

use std::collections::BTreeSet;

use diode_core::hardware::Hardware;

use super::connection::Connection;
use super::entry_row::{COLUMNS, EntryRow};
use super::fields::{parse, unsigned};
use super::inserts::{self, ROWS_PER_STATEMENT};
use super::solutions::{Selection, load};
use super::statement::Statement;
use super::{deviations, unjudged};
use crate::consensus::{BoardEntry, compute};
use crate::solutions::ConfigLists;
use crate::store::error::StoreResult;
use crate::store::types::View;

pub(super) async fn find(db: &mut impl Connection, view: &View) -> StoreResult<Option<BoardEntry>> {
    let select = Statement::new("SELECT ")
        .push(COLUMNS)
        .push(" FROM entries WHERE hardware = $1 AND problem = $2 AND method = $3")
        .bind(view.hardware.as_str())
        .bind(view.problem.as_str())
        .bind(view.method.to_string());
    let row: Option<EntryRow> = db.fetch_optional(select).await?;
    Ok(row.map(EntryRow::entry).transpose()?)
}

pub(super) async fn views(db: &mut impl Connection) -> StoreResult<Vec<View>> {
    let select = Statement::new(
        "SELECT hardware, problem, method FROM solutions UNION SELECT hardware, problem, method FROM entries \
         ORDER BY hardware, problem, method",
    );
    fetch_views(db, select).await
}

/// Removes an entry; [`refresh`] makes it anew where solutions count.
pub(super) async fn remove(db: &mut impl Connection, view: &View) -> StoreResult<()> {
    let delete = Statement::new("DELETE FROM entries WHERE hardware = $1 AND problem = $2 AND method = $3")
        .bind(view.hardware.as_str())
        .bind(view.problem.as_str())
        .bind(view.method.to_string());
    db.execute(delete).await?;
    Ok(())
}

pub(super) async fn fetch_views(db: &mut impl Connection, select: Statement) -> StoreResult<Vec<View>> {
    let rows: Vec<(String, String, String)> = db.fetch_all(select).await?;
    let view = |(hardware, problem, method): (String, String, String)| {
        Ok(View {
            hardware: parse("hardware slug", hardware)?,
            problem: parse("problem id", problem)?,
            method: parse("method", method)?,
        })
    };
    rows.into_iter().map(view).collect()
}

/// Recomputes the entries of some views and the deviations of their solutions, in order, until
/// `budget` timings have been read; the first view is always done. Returns those
/// that are left.
///
/// A stored entry must be what [`compute`] makes of the stored solutions,
/// or its view must be among the stale ones, also when two uploads add to one view
/// at the same time. So entries are computed in the transaction that adds the
/// solutions or takes the mark away, and nobody else can come between its reads and its
/// commit: SQLite has one writer (`BEGIN IMMEDIATE`). On Postgres an upload keeps
/// the hardware ([`super::hardware::keep`]) and locks those of its problems
/// ([`super::problems::lock`]); all others lock the hardware ([`super::hardware::lock`]). The
/// second upload of a problem then reads the solutions that the first has committed: Postgres
/// shows each statement all that was committed before it. Facts that came meanwhile are seen
/// in the end ([`super::hardware::note_upload`]).
///
/// Decoding and medians take long, so they run on a thread for blocking work
/// while the transaction stays open.
///
/// One view at a time, so that memory holds the solutions of one view only.
pub(super) async fn refresh<'v>(
    db: &mut impl Connection,
    hardware: &[Hardware],
    touched: &'v BTreeSet<View>,
    budget: u64,
) -> StoreResult<BTreeSet<&'v View>> {
    let mut lists = ConfigLists::default();
    let (mut entries, mut left, mut spent) = (Vec::new(), BTreeSet::new(), 0);
    let mut changed = BTreeSet::new();
    for view in touched {
        let known = hardware.iter().find(|known| known.slug == view.hardware);
        let known = known.cloned().ok_or(sqlx::Error::RowNotFound)?;
        let timings = timings(db, view).await?;
        if spent > 0 && spent + timings > budget {
            left.insert(view);
            continue;
        }
        spent += timings;
        let stored = load(db, Selection::View(view)).await?;
        let Some(problem) = stored.problems.get(&view.problem).cloned() else {
            remove(db, view).await?;
            continue;
        };
        let computing = tokio::task::spawn_blocking({
            let problem = problem.clone();
            move || (compute(&stored, &mut lists, &problem, &known), lists)
        });
        let computed;
        (computed, lists) = computing.await?;
        changed.extend(deviations::replace(db, view, &computed.deviations).await?);
        match computed.entry {
            Some(entry) => entries.push((view, problem, entry)),
            None => remove(db, view).await?,
        }
    }
    for chunk in entries.chunks(ROWS_PER_STATEMENT) {
        db.execute(inserts::board_entries(chunk)?).await?;
    }
    unjudged::mark(db, &changed).await?;
    Ok(left)
}

async fn timings(db: &mut impl Connection, view: &View) -> StoreResult<u64> {
    let select = Statement::new(
        "SELECT CAST(COALESCE(SUM(timings), 0) AS BIGINT) FROM solutions \
         WHERE hardware = $1 AND problem = $2 AND method = $3 AND standing < 2",
    )
    .bind(view.hardware.as_str())
    .bind(view.problem.as_str())
    .bind(view.method.to_string());
    let (timings,): (i64,) = db.fetch_one(select).await?;
    Ok(unsigned("timing count", timings)?)
}
