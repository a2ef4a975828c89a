//! The entries of boards: one for each view, computed from its solutions, in the transaction that changes them or later.
//! What queries look for is a column; the whole entry is one JSON value.

use std::collections::BTreeSet;

use diode_core::hardware::Hardware;
use diode_core::ids::{HardwareSlug, ProblemId, UploadId};
use diode_core::{Method, Problem};

use crate::boards::consensus::{BoardEntry, Computed, ConfigCache, ENTRY_VERSION, compute};
use crate::store::Store;
use crate::store::StoreResult;
use crate::store::connection::Connection;
use crate::store::connection::in_transaction;
use crate::store::fields::{from_json, json, parse};
use crate::store::statement::{ROWS_PER_STATEMENT, Statement, Value};
use crate::uploads::solutions::{Damaged, StoredSolutions, Unpacked};

/// At first this many views are counted, to see whether they fit in the budget. Each later count has
/// [`COUNTED_GROW_BY`] times as many views. A count reads rows for each solution. If many uploads have the same
/// problems, counting all views of a large upload takes longer than computing the few that fit in the budget.
const FIRST_COUNTED: usize = 8;

const COUNTED_GROW_BY: usize = 4;

/// How many timings are loaded together. Packed, each takes some two bytes.
const TIMINGS_AT_ONCE: u64 = 1 << 20;

type Work = (Problem, Hardware, StoredSolutions);

/// The views of a call, divided by the budget.
struct Budgeted<'v> {
    /// The views that are computed together.
    runs: Vec<Vec<&'v View>>,
    /// The views beyond the budget.
    left: BTreeSet<&'v View>,
}

/// How many views one transaction recomputes at most. Uploads for the same hardware wait until it commits.
const VIEWS_PER_ROUND: u64 = 32;

/// A round ends after this many timings. To compute with them takes some tenths of a second.
const TIMINGS_PER_ROUND: u64 = 1 << 20;

/// The subject of one row of a leaderboard.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct View {
    pub hardware: HardwareSlug,
    pub problem: ProblemId,
    pub method: Method,
}

impl std::fmt::Display for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} problem {} method {}", self.hardware, self.problem, self.method)
    }
}

impl Store {
    /// Recomputes some of the stale board entries, or judges some uploads anew whose deviations have changed.
    /// Returns how many; 0 if none was left. Several processes may call it at once.
    pub async fn refresh_entries(&self) -> StoreResult<usize> {
        in_transaction!(self, async |db| {
            let done = db.mark_entries_of_earlier_versions().await?;
            let done = if done == 0 { db.refresh_some_entries().await? } else { done };
            if done == 0 { db.judge_some_uploads().await } else { Ok(done) }
        })
    }

    /// The stale views, with those whose entries are of an earlier version.
    pub async fn stale_entries(&self) -> StoreResult<Vec<View>> {
        let db = &mut self.reader().await?;
        let select = Statement::new(
            "SELECT hardware, problem, method FROM stale_entries UNION SELECT e.hardware, e.problem, e.method \
             FROM entries e JOIN hardware h ON h.slug = e.hardware WHERE h.entry_version < $1",
        );
        db.fetch_views(select.bind(ENTRY_VERSION)).await
    }

    /// The board entry of a view; `None` if no config of the view has a time.
    pub async fn board_entry(&self, view: &View) -> StoreResult<Option<BoardEntry>> {
        let db = &mut self.read_transaction().await?;
        let Some(entry) = db.find_entry(view).await? else { return Ok(None) };
        let (equal,): (i64,) = db.fetch_one(count_equal(view, &entry)).await?;
        if equal == 0 {
            return Err(Damaged::new("board entry", "its columns differ from its JSON").into());
        }
        Ok(Some(entry))
    }

    /// Every view that has a solution or an entry, sorted; for verification.
    pub async fn views(&self) -> StoreResult<Vec<View>> {
        let db = &mut self.reader().await?;
        let select = Statement::new(
            "SELECT hardware, problem, method FROM solutions UNION SELECT hardware, problem, method FROM \
             entries \
             ORDER BY hardware, problem, method",
        );
        db.fetch_views(select).await
    }
}

impl Connection {
    pub(crate) async fn find_entry(&mut self, view: &View) -> StoreResult<Option<BoardEntry>> {
        let select =
            Statement::new("SELECT entry FROM entries WHERE hardware = $1 AND problem = $2 AND method = $3")
                .bind(view.hardware.as_str())
                .bind(view.problem.as_str())
                .bind(view.method.to_string());
        let row: Option<(String,)> = self.fetch_optional(select).await?;
        Ok(row.map(|(entry,)| read_entry(&entry)).transpose()?)
    }

    /// Removes an entry. [`Self::refresh_entries`] makes it anew if solutions count.
    pub(crate) async fn remove_entry(&mut self, view: &View) -> StoreResult<()> {
        let delete =
            Statement::new("DELETE FROM entries WHERE hardware = $1 AND problem = $2 AND method = $3")
                .bind(view.hardware.as_str())
                .bind(view.problem.as_str())
                .bind(view.method.to_string());
        self.execute(delete).await?;
        Ok(())
    }

    pub(crate) async fn fetch_views(&mut self, select: Statement) -> StoreResult<Vec<View>> {
        let rows: Vec<(String, String, String)> = self.fetch_all(select).await?;
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
    /// one writer (`BEGIN IMMEDIATE`). On Postgres, an upload keeps the hardware ([`Self::keep_hardware`]) and locks
    /// its problems ([`Self::lock_problems`]). All other transactions lock the hardware ([`Self::lock_hardware`]).
    /// The second upload of a problem then reads the solutions of the first, because in Postgres each statement sees what
    /// was committed before it. Facts that have changed meanwhile are noticed at the end
    /// ([`Self::note_upload_of_hardware`]).
    ///
    /// Decoding and medians take long, so they run on threads for blocking work while the transaction stays open.
    ///
    /// Works on some views at a time, so that memory holds the packed solutions of a few views, and the unpacked
    /// solutions of two; besides, those of the upload that is being stored (`unpacked`), which are not unpacked again.
    pub(crate) async fn refresh_entries<'v>(
        &mut self,
        hardware: &[Hardware],
        touched: &'v BTreeSet<View>,
        budget: u64,
        unpacked: &Unpacked,
    ) -> StoreResult<BTreeSet<&'v View>> {
        let (mut learnt, mut changed) = (Default::default(), BTreeSet::new());
        let Budgeted { runs, left } = self.budgeted_views(touched, budget).await?;
        for views in runs {
            let mut loaded = self.load_views(&views).await?;
            let mut there = Vec::with_capacity(views.len());
            for view in views {
                let known = hardware.iter().find(|known| known.slug == view.hardware);
                let known = known.cloned().ok_or(sqlx::Error::RowNotFound)?;
                let mut stored = loaded.remove(view).unwrap_or_default();
                for solution in &mut stored.solutions {
                    solution.unpacked = unpacked.get(&solution.digest).cloned();
                }
                match stored.problems.get(&view.problem).cloned() {
                    Some(problem) => there.push((view, problem, known, stored)),
                    None => self.remove_entry(view).await?,
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
                    None => self.remove_entry(view).await?,
                }
            }
            changed.extend(self.replace_deviations(&views, &deviations).await?);
            for chunk in entries.chunks(ROWS_PER_STATEMENT) {
                self.execute(insert_entries(chunk)?).await?;
            }
        }
        self.mark_to_judge(&changed).await?;
        Ok(left)
    }

    async fn budgeted_views<'v>(
        &mut self,
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
            let timings = self.view_timings(chunk).await?;
            for &view in chunk {
                let timings = timings.get(view).copied().unwrap_or_default();
                if spent > 0 && spent + timings > budget {
                    budgeted.left.insert(view);
                    continue;
                }
                spent += timings;
                if !run.is_empty() && (run.len() == ROWS_PER_STATEMENT || in_run + timings > TIMINGS_AT_ONCE)
                {
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

    /// Marks the views of one hardware whose entries an earlier version of this program has computed. Returns how many
    /// kinds of hardware; 0 if there was none.
    async fn mark_entries_of_earlier_versions(&mut self) -> StoreResult<usize> {
        let select = Statement::new("SELECT slug FROM hardware WHERE entry_version < $1 LIMIT 1");
        let found: Option<(String,)> = self.fetch_optional(select.bind(ENTRY_VERSION)).await?;
        let Some((slug,)) = found else { return Ok(0) };
        let slug = parse("hardware slug", slug)?;
        self.lock_hardware(&slug).await?;
        self.mark_all_stale(&slug).await?;
        let update = Statement::new("UPDATE hardware SET entry_version = $1 WHERE slug = $2");
        self.execute(update.bind(ENTRY_VERSION).bind(slug.as_str())).await?;
        Ok(1)
    }

    /// Recomputes some entries. Returns how many views; 0 if there was nothing to do.
    ///
    /// The hardware is locked before its views are read, and every upload keeps the hardware. So no upload can mark
    /// a view between the reading and the commit.
    async fn refresh_some_entries(&mut self) -> StoreResult<usize> {
        let select = Statement::new("SELECT hardware, problem, method FROM stale_entries LIMIT 1");
        let Some(View { hardware: slug, .. }) = self.fetch_views(select).await?.pop() else { return Ok(0) };
        let Some(known) = self.lock_hardware(&slug).await? else { return Ok(0) };
        let views = self.some_stale_views(&slug).await?;
        let left = self.refresh_entries(&[known], &views, TIMINGS_PER_ROUND, &Unpacked::new()).await?;
        let mut done = 0;
        for view in views.iter().filter(|view| !left.contains(view)) {
            self.unmark_stale(view).await?;
            done += 1;
        }
        self.bump_revision(&slug).await?;
        Ok(done)
    }

    /// Some stale views, starting at a different place each time. So all views get their turn, even if uploads mark
    /// some of them again and again.
    async fn some_stale_views(&mut self, slug: &HardwareSlug) -> StoreResult<BTreeSet<View>> {
        // The place changes with each round, because each round raises the revision.
        let revision = self.hardware_revision(slug).await?.unwrap_or_default();
        let start = ProblemId::of(&revision.to_le_bytes());
        let mut views = BTreeSet::new();
        for part in ["problem >= ", "problem < "] {
            let select =
                Statement::new("SELECT hardware, problem, method FROM stale_entries WHERE hardware = ")
                    .push_bind(slug.as_str())
                    .push(" AND ")
                    .push(part)
                    .push_bind(start.as_str())
                    .push(" ORDER BY problem, method LIMIT ")
                    .push_bind(VIEWS_PER_ROUND.saturating_sub(views.len() as u64));
            views.extend(self.fetch_views(select).await?);
        }
        Ok(views)
    }

    pub(crate) async fn mark_stale(&mut self, views: &[&View]) -> StoreResult<()> {
        for chunk in views.chunks(ROWS_PER_STATEMENT) {
            self.execute(insert_stale_entries(chunk)).await?;
        }
        Ok(())
    }

    /// Marks every view of a hardware.
    pub(crate) async fn mark_all_stale(&mut self, slug: &HardwareSlug) -> StoreResult<()> {
        let insert = Statement::new(
            "INSERT INTO stale_entries (hardware, problem, method) \
             SELECT DISTINCT hardware, problem, method FROM solutions WHERE hardware = $1 ON CONFLICT DO \
             NOTHING",
        );
        self.execute(insert.bind(slug.as_str())).await?;
        Ok(())
    }

    /// Marks every view of an upload's solutions.
    pub(crate) async fn mark_stale_by_upload(&mut self, upload: &UploadId) -> StoreResult<()> {
        let insert = Statement::new(
            "INSERT INTO stale_entries (hardware, problem, method) \
             SELECT DISTINCT hardware, problem, method FROM solutions \
             WHERE id IN (SELECT solution FROM sent WHERE upload = $1) ON CONFLICT DO NOTHING",
        );
        self.execute(insert.bind(upload.as_str())).await?;
        Ok(())
    }

    /// Removes the mark of a view.
    pub(crate) async fn unmark_stale(&mut self, view: &View) -> StoreResult<()> {
        let delete =
            Statement::new("DELETE FROM stale_entries WHERE hardware = $1 AND problem = $2 AND method = $3")
                .bind(view.hardware.as_str())
                .bind(view.problem.as_str())
                .bind(view.method.to_string());
        self.execute(delete).await?;
        Ok(())
    }
}

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

/// Reads the column `entry`.
pub(crate) fn read_entry(entry: &str) -> Result<BoardEntry, Damaged> {
    from_json("board entry", entry)
}

/// Adds entries, or replaces those of the same views.
pub(crate) fn insert_entries(entries: &[(&View, Problem, BoardEntry)]) -> Result<Statement, Damaged> {
    let row = |(view, problem, entry): &(&View, Problem, BoardEntry)| -> Result<Vec<Value>, Damaged> {
        Ok(vec![
            view.hardware.as_str().into(),
            view.problem.as_str().into(),
            view.method.to_string().into(),
            problem.op.as_str().into(),
            problem.a_dtype.as_str().into(),
            problem.scaling.as_str().into(),
            problem.b_layout.as_str().into(),
            problem.m.into(),
            problem.n.into(),
            problem.k.into(),
            problem.flops().into(),
            entry.best_us.into(),
            entry.tflops.into(),
            json("board entry", entry)?.into(),
        ])
    };
    let rows = entries.iter().map(row).collect::<Result<Vec<_>, _>>()?;
    let insert = Statement::new(
        "INSERT INTO entries \
         (hardware, problem, method, op, a_dtype, scaling, b_layout, m, n, k, flops, best_us, tflops, entry)",
    );
    Ok(insert.push_rows(rows).push(
        " ON CONFLICT (hardware, problem, method) DO UPDATE SET best_us = excluded.best_us, \
         tflops = excluded.tflops, entry = excluded.entry, changed = 0",
    ))
}

/// Counts the entries of a view whose columns are those of `entry`: one, or none if they were tampered with.
pub(crate) fn count_equal(view: &View, entry: &BoardEntry) -> Statement {
    Statement::new("SELECT COUNT(*) FROM entries WHERE hardware = ")
        .push_bind(view.hardware.as_str())
        .push(" AND problem = ")
        .push_bind(view.problem.as_str())
        .push(" AND method = ")
        .push_bind(view.method.to_string())
        .push(" AND best_us = ")
        .push_bind(entry.best_us)
        .push(" AND tflops IS NOT DISTINCT FROM ")
        .push_bind(entry.tflops)
}

pub(crate) fn insert_stale_entries(views: &[&View]) -> Statement {
    let rows = views.iter().map(|view| {
        [view.hardware.as_str().into(), view.problem.as_str().into(), view.method.to_string().into()]
    });
    Statement::new("INSERT INTO stale_entries (hardware, problem, method)")
        .push_rows(rows)
        .push(" ON CONFLICT DO NOTHING")
}
