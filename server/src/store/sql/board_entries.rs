//! Reads a board entry, and recomputes the entries that an upload changes.

use std::collections::BTreeSet;

use diode_core::Problem;
use diode_core::hardware::Hardware;

use super::entry_row;
use super::inserts::ROWS_PER_STATEMENT;
use super::{deviations, to_fence, view_solutions};
use crate::consensus::{BoardEntry, Computed, ConfigCache, compute};
use crate::solutions::{Damaged, StoredSolutions};
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::parse;
use crate::store::statement::Statement;
use crate::store::types::View;

/// At first this many views are counted, to see whether they fit in the budget. Each later count has
/// [`COUNTED_GROW_BY`] times as many views. A count reads rows for each solution. If many uploads have the same
/// problems, counting all views of a large upload takes longer than computing the few that fit in the budget.
const FIRST_COUNTED: usize = 8;
const COUNTED_GROW_BY: usize = 4;

/// How many timings are loaded together. Packed, each takes some two bytes.
const TIMINGS_AT_ONCE: u64 = 1 << 20;

pub(super) async fn find(db: &mut Connection, view: &View) -> StoreResult<Option<BoardEntry>> {
    let select =
        Statement::new("SELECT entry FROM entries WHERE hardware = $1 AND problem = $2 AND method = $3")
            .bind(view.hardware.as_str())
            .bind(view.problem.as_str())
            .bind(view.method.to_string());
    let row: Option<(String,)> = db.fetch_optional(select).await?;
    Ok(row.map(|(entry,)| entry_row::read(&entry)).transpose()?)
}

/// The entry of a view. Fails if its columns are not those of its JSON.
pub(super) async fn find_checked(db: &mut Connection, view: &View) -> StoreResult<Option<BoardEntry>> {
    let Some(entry) = find(db, view).await? else { return Ok(None) };
    let (equal,): (i64,) = db.fetch_one(entry_row::count_equal(view, &entry)).await?;
    if equal == 0 {
        return Err(Damaged::new("board entry", "its columns differ from its JSON").into());
    }
    Ok(Some(entry))
}

pub(super) async fn views(db: &mut Connection) -> StoreResult<Vec<View>> {
    let select = Statement::new(
        "SELECT hardware, problem, method FROM solutions UNION SELECT hardware, problem, method FROM entries \
         ORDER BY hardware, problem, method",
    );
    fetch_views(db, select).await
}

/// Removes an entry. [`refresh`] makes it anew if solutions count.
pub(super) async fn remove(db: &mut Connection, view: &View) -> StoreResult<()> {
    let delete = Statement::new("DELETE FROM entries WHERE hardware = $1 AND problem = $2 AND method = $3")
        .bind(view.hardware.as_str())
        .bind(view.problem.as_str())
        .bind(view.method.to_string());
    db.execute(delete).await?;
    Ok(())
}

pub(super) async fn fetch_views(db: &mut Connection, select: Statement) -> StoreResult<Vec<View>> {
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

/// Recomputes the entries of some views and the deviations of their solutions, in order, until `budget` timings have
/// been read. The first view is always computed. Returns the views that are left. After a view that exceeds the
/// budget, even small views may be left.
///
/// An entry must always be what [`compute`] makes of the stored solutions, or its view must be marked as stale, even
/// when two uploads add to one view at the same time. So an entry is computed in the transaction that adds the
/// solutions or removes the mark, and no other transaction may change these solutions before the commit. SQLite has
/// one writer (`BEGIN IMMEDIATE`). On Postgres, an upload keeps the hardware ([`super::hardware::keep`]) and locks
/// its problems ([`super::problems::lock`]). All other transactions lock the hardware ([`super::hardware::lock`]).
/// The second upload of a problem then reads the solutions of the first, because in Postgres each statement sees what
/// was committed before it. Facts that have changed meanwhile are noticed at the end
/// ([`super::hardware::note_upload`]).
///
/// Decoding and medians take long, so they run on threads for blocking work while the transaction stays open.
///
/// Works on some views at a time, so that memory holds the packed solutions of a few views, and the unpacked
/// solutions of two.
pub(super) async fn refresh<'v>(
    db: &mut Connection,
    hardware: &[Hardware],
    touched: &'v BTreeSet<View>,
    budget: u64,
) -> StoreResult<BTreeSet<&'v View>> {
    let (mut learnt, mut changed) = (Default::default(), BTreeSet::new());
    let Budgeted { runs, left } = budgeted(db, touched, budget).await?;
    for views in runs {
        let mut loaded = view_solutions::load(db, &views).await?;
        let mut there = Vec::with_capacity(views.len());
        for view in views {
            let known = hardware.iter().find(|known| known.slug == view.hardware);
            let known = known.cloned().ok_or(sqlx::Error::RowNotFound)?;
            let stored = loaded.remove(view).unwrap_or_default();
            match stored.problems.get(&view.problem).cloned() {
                Some(problem) => there.push((view, problem, known, stored)),
                None => remove(db, view).await?,
            }
        }
        let views: Vec<&View> = there.iter().map(|(view, ..)| *view).collect();
        let work: Vec<_> =
            there.into_iter().map(|(_, problem, known, stored)| (problem, known, stored)).collect();
        let computed;
        (computed, learnt) = tokio::task::spawn_blocking(move || compute_all(work, learnt)).await?;
        let (mut entries, mut deviations) = (Vec::with_capacity(views.len()), Vec::new());
        for (view, (problem, computed)) in views.iter().copied().zip(computed) {
            deviations.extend(computed.deviations);
            match computed.entry {
                Some(entry) => entries.push((view, problem, entry)),
                None => remove(db, view).await?,
            }
        }
        changed.extend(deviations::replace(db, &views, &deviations).await?);
        for chunk in entries.chunks(ROWS_PER_STATEMENT) {
            db.execute(entry_row::insert(chunk)?).await?;
        }
    }
    to_fence::mark(db, &changed).await?;
    Ok(left)
}

type Work = (Problem, Hardware, StoredSolutions);

/// Uses two threads, because other transactions wait for the locks of this one. On SQLite, all other writers wait.
fn compute_all(
    mut work: Vec<Work>,
    learnt: [ConfigCache; 2],
) -> (Vec<(Problem, Computed)>, [ConfigCache; 2]) {
    let [mut first, mut second] = learnt;
    let rest = work.split_off(work.len() / 2);
    let computed = std::thread::scope(|scope| {
        let rest = scope.spawn(|| compute_each(rest, &mut second));
        let mut computed = compute_each(work, &mut first);
        computed.extend(rest.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        computed
    });
    (computed, [first, second])
}

fn compute_each(work: Vec<Work>, learnt: &mut ConfigCache) -> Vec<(Problem, Computed)> {
    let computed = |(problem, hardware, stored): Work| {
        let computed = compute(&stored, learnt, &problem, &hardware);
        (problem, computed)
    };
    work.into_iter().map(computed).collect()
}

/// The views of a call, divided by the budget.
struct Budgeted<'v> {
    /// The views that are computed together.
    runs: Vec<Vec<&'v View>>,
    /// The views beyond the budget.
    left: BTreeSet<&'v View>,
}

async fn budgeted<'v>(
    db: &mut Connection,
    touched: &'v BTreeSet<View>,
    budget: u64,
) -> StoreResult<Budgeted<'v>> {
    let mut budgeted = Budgeted { runs: Vec::new(), left: BTreeSet::new() };
    let touched: Vec<&View> = touched.iter().collect();
    let (mut run, mut in_run, mut spent) = (Vec::new(), 0, 0);
    let (mut rest, mut count) = (touched.as_slice(), FIRST_COUNTED);
    while !rest.is_empty() && budgeted.left.is_empty() {
        let chunk = rest.split_off(..count.min(rest.len())).unwrap_or_default();
        count = (count * COUNTED_GROW_BY).min(ROWS_PER_STATEMENT);
        let timings = view_solutions::timings(db, chunk).await?;
        for &view in chunk {
            let timings = timings.get(view).copied().unwrap_or_default();
            if spent > 0 && spent + timings > budget {
                budgeted.left.insert(view);
                continue;
            }
            spent += timings;
            if !run.is_empty() && (run.len() == ROWS_PER_STATEMENT || in_run + timings > TIMINGS_AT_ONCE) {
                budgeted.runs.push(std::mem::take(&mut run));
                in_run = 0;
            }
            in_run += timings;
            run.push(view);
        }
    }
    budgeted.left.extend(rest);
    budgeted.runs.extend((!run.is_empty()).then_some(run));
    Ok(budgeted)
}
