//! Pages of a leaderboard, and the problems that are most like a given one.
//!
//! A page follows a cursor, with the same order of ties everywhere.

use std::collections::BTreeSet;

use diode_api::{
    Kernels, Leaderboard, LeaderboardSort, NearestProblem, ProblemFilter, ProblemPoint, ProblemView,
    SortOrder,
};
use diode_core::hardware::Hardware;
use diode_core::ids::{HardwareSlug, ProblemId};
use diode_core::table::distance;
use diode_core::{Comparison, Invalid, Layout, Method, Op, Problem};

use crate::boards::consensus::BoardEntry;
use crate::boards::entry_store::View;
use crate::boards::listed::{self, Board, Listed};
use crate::store::Store;
use crate::store::StoreResult;
use crate::store::connection::Connection;
use crate::store::fields::{from_json, parse, readable_row};
use crate::store::statement::{ROWS_PER_STATEMENT, Statement};
use crate::uploads::solutions::Damaged;

/// How many problems of one op and layout are read in one direction. Two ops, two layouts and two directions
/// make at most 2,048 problems.
const WALK: i64 = 256;

/// The most problems that are read: enough, because problems of the same size and type differ only in op, bias
/// and layouts.
const MOST: i64 = 64;

/// A way in which a problem was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Way {
    pub hardware: Hardware,
    pub method: Method,
    /// The revision of the hardware's entries.
    pub revision: i64,
}

readable_row!(Way { ..hardware: Hardware, method, revision } => Way {
    hardware,
    method: parse("method", method)?,
    revision,
});

impl Way {
    pub(crate) fn view(&self) -> ProblemView {
        ProblemView { hardware: self.hardware.slug.clone(), method: self.method }
    }
}

/// The order of a leaderboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranking {
    pub kernels: Kernels,
    pub sort: LeaderboardSort,
    pub order: SortOrder,
}

impl std::fmt::Display for Ranking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kernels, sort, order } = self;
        write!(f, "{kernels}.{sort}.{order}")
    }
}

/// Where a page of a leaderboard ended: the sort value of its last row, and the fields that break ties.
/// Clients pass it back unchanged.
#[derive(Debug, Clone, PartialEq)]
pub struct Cursor {
    /// `None` if the row has no value. Rows without a value come last.
    pub value: Option<f64>,
    pub problem: ProblemId,
    pub method: Method,
}

impl Cursor {
    /// The text form, which includes the order.
    pub fn encode(&self, ranking: Ranking) -> String {
        let value = self.value.map_or("-".to_owned(), |v| format!("{:016x}", v.to_bits()));
        format!("{ranking}.{value}.{}.{}", self.problem, self.method)
    }

    /// Reads the text of [`Cursor::encode`], if the text is of the same order.
    pub fn decode(text: &str, ranking: Ranking) -> Result<Self, Invalid> {
        let refuse = || {
            Invalid::new(
                "cursor",
                format_args!("`{text:.128}`"),
                format!("the next_cursor of a page in the order {ranking}; leave it out for the first page"),
            )
        };
        let rest = text.strip_prefix(&format!("{ranking}.")).ok_or_else(refuse)?;
        let mut parts = rest.splitn(3, '.');
        let (Some(value), Some(problem), Some(method)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(refuse());
        };
        let value = match value {
            "-" => None,
            bits => Some(f64::from_bits(u64::from_str_radix(bits, 16).map_err(|_| refuse())?)),
        };
        if value.is_some_and(|v| !v.is_finite()) {
            return Err(refuse());
        }
        let cursor = Self {
            value,
            problem: problem.parse().map_err(|_| refuse())?,
            method: method.parse().map_err(|_| refuse())?,
        };
        // Each place on a board has exactly one valid text, because answers are kept under the text of their
        // request.
        if cursor.encode(ranking) == text { Ok(cursor) } else { Err(refuse()) }
    }
}

/// A request for a page of a leaderboard.
#[derive(Debug, Clone)]
pub struct BoardQuery {
    pub filter: ProblemFilter,
    pub ranking: Ranking,
    pub limit: u32,
    /// `None` for the first page.
    pub after: Option<Cursor>,
}

impl Store {
    /// The measured problems of a hardware with exactly the sizes and type of `problem`, but any op and layout. The
    /// most similar come first.
    pub async fn same_size(
        &self,
        slug: &HardwareSlug,
        problem: &Problem,
        method: Method,
    ) -> StoreResult<Vec<NearestProblem>> {
        let wanted = problem;
        let db = &mut self.read_transaction().await?;
        let ops = Op::ALL.iter().filter(|op| op.is_like(wanted.op));
        let select = Statement::new(
            "SELECT p.fields FROM entries e JOIN problems p ON p.id = e.problem WHERE e.hardware = ",
        )
        .push_bind(slug.as_str())
        .push(" AND e.op IN (")
        .push_list(ops.map(|op| op.as_str()))
        .push(") AND e.a_dtype = ")
        .push_bind(wanted.a_dtype.as_str())
        .push(" AND e.scaling = ")
        .push_bind(wanted.scaling.as_str())
        .push(" AND e.b_layout IN (")
        .push_list(Layout::ALL.iter().map(|layout| layout.as_str()))
        .push(") AND e.method = ")
        .push_bind(method.to_string())
        .push(" AND e.m = ")
        .push_bind(wanted.m)
        .push(" AND e.n = ")
        .push_bind(wanted.n)
        .push(" AND e.k = ")
        .push_bind(wanted.k)
        .push(" AND p.b = ")
        .push_bind(wanted.b)
        .push(" ORDER BY e.problem LIMIT ")
        .push_bind(MOST);
        let rows: Vec<(String,)> = db.fetch_all(select).await?;
        let mut found = Vec::new();
        for (fields,) in rows {
            let problem = problem_of(&fields)?;
            let Some(distance) = distance(wanted, &problem) else { continue };
            let view = View { hardware: slug.clone(), problem: problem.id(), method };
            let entry = db.find_entry(&view).await?;
            found.extend(entry.map(|entry| described(view, problem, distance, entry)));
        }
        found.sort_by(|a, b| a.distance.total_cmp(&b.distance));
        Ok(found)
    }

    /// One page of the entries of a hardware. Unknown hardware has an empty board. As long as nothing is uploaded,
    /// the pages have no gaps or repeats. Entries without the sort value come last in either order.
    pub async fn leaderboard(&self, slug: &HardwareSlug, query: &BoardQuery) -> StoreResult<Leaderboard> {
        if let Some(board) = self.boards.kept(slug)
            && let Some(page) = self.reader().await?.board_page(slug, &board, query).await?
        {
            return Ok(page);
        }
        let (mut db, board) = self.board_now(slug).await?;
        let nothing =
            Leaderboard { items: vec![], total: 0, next_cursor: None, comparison: Comparison::default() };
        // Unknown hardware has no revision.
        Ok(db.board_page(slug, &board, query).await?.unwrap_or(nothing))
    }

    /// One point for each problem that passes a filter and has a rate, by the method with the most timings. If more
    /// than `cap` problems pass, returns an even sample of them.
    pub async fn problem_points(
        &self,
        slug: &HardwareSlug,
        filter: &ProblemFilter,
        cap: u32,
    ) -> StoreResult<Vec<ProblemPoint>> {
        let board = self.board(slug).await?;
        let with_rate: Vec<&Listed> =
            board.passing(filter).filter(|entry| entry.best.tflops.is_some()).collect();
        let of_one = with_rate.chunk_by(|a, b| a.id == b.id).take(cap as usize);
        // Of equals, the first.
        let found = of_one.filter_map(|ways| ways.iter().rev().max_by_key(|entry| entry.timings));
        Ok(found.map(|entry| point(entry)).collect())
    }

    /// The measured problems of a hardware that are most like `problem`, by one method, the nearest first. Includes
    /// only problems that the same kernels can run. If there are many, compares only the problems with the nearest
    /// M.
    pub async fn nearest_problems(
        &self,
        slug: &HardwareSlug,
        problem: &Problem,
        method: Method,
        limit: u32,
    ) -> StoreResult<Vec<NearestProblem>> {
        let wanted = problem;
        let db = &mut self.read_transaction().await?;
        let mut near: Vec<(f64, Problem)> = Vec::new();
        for op in Op::ALL.iter().filter(|op| op.is_like(wanted.op)) {
            for layout in Layout::ALL {
                for onward in [true, false] {
                    let rows: Vec<(String,)> =
                        db.fetch_all(walk(slug, wanted, *op, *layout, method, onward)).await?;
                    for (fields,) in rows {
                        let problem = problem_of(&fields)?;
                        near.extend(distance(wanted, &problem).map(|distance| (distance, problem)));
                    }
                }
            }
        }
        // Problems at equal distances have the order of their names, so that the answer is always the same.
        near.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.canonical().cmp(&b.1.canonical())));
        let mut found = Vec::new();
        for (distance, problem) in near.into_iter().take(limit as usize) {
            let view = View { hardware: slug.clone(), problem: problem.id(), method };
            let Some(entry) = db.find_entry(&view).await? else { continue };
            found.push(described(view, problem, distance, entry));
        }
        Ok(found)
    }

    /// A problem; `None` if nothing was ever measured for it.
    pub async fn problem(&self, id: &ProblemId) -> StoreResult<Option<Problem>> {
        let db = &mut self.reader().await?;
        let select = Statement::new("SELECT fields FROM problems WHERE id = $1").bind(id.as_str());
        let row: Option<(String,)> = db.fetch_optional(select).await?;
        Ok(row.map(|(fields,)| problem_of(&fields)).transpose()?)
    }

    /// The ways in which a problem was measured, sorted. Empty for an unknown problem.
    pub async fn problem_ways(&self, id: &ProblemId) -> StoreResult<Vec<Way>> {
        let select = Statement::new(
            "SELECT h.slug, h.name, h.vendor, h.facts, h.revision, s.method FROM \
             (SELECT DISTINCT hardware, method FROM solutions WHERE problem = $1 AND standing = 0) s \
             JOIN hardware h ON h.slug = s.hardware ORDER BY h.slug, s.method",
        );
        self.reader().await?.read_all(select.bind(id.as_str())).await
    }
}

impl Connection {
    /// One page of a board; `None` if the hardware has another revision by now.
    async fn board_page(
        &mut self,
        slug: &HardwareSlug,
        board: &Board,
        query: &BoardQuery,
    ) -> StoreResult<Option<Leaderboard>> {
        if let Some(damaged) = &board.damaged {
            return Err(Damaged::new("board entry", damaged).into());
        }
        let passing: Vec<&Listed> = board.passing(&query.filter).collect();
        let total = passing.len() as u64;
        let ratios: Vec<f64> = passing.iter().filter_map(|entry| entry.triton_over_library).collect();
        let limit = query.limit as usize;
        // The row after the page shows whether there is another page.
        let mut rows = listed::page(passing, query.ranking, query.after.as_ref(), limit + 1);
        let more = rows.len() > limit;
        rows.truncate(limit);
        let ids: Vec<&ProblemId> = rows.iter().map(|entry| &entry.id).collect();
        let (mut revision, mut entries) = self.whole_entries(slug, &ids).await?;
        if ids.is_empty() {
            revision = self.hardware_revision(slug).await?;
        }
        if revision != Some(board.revision) {
            return Ok(None);
        }
        let last = rows.last().filter(|_| more);
        let next_cursor = last.map(|entry| entry.place(query.ranking).encode(query.ranking));
        let row = |listed: &Listed| {
            let entry = entries.remove(&(listed.id.clone(), listed.method))?;
            Some(entry.row(listed.problem.clone(), listed.method))
        };
        let items = rows.into_iter().filter_map(row).collect();
        Ok(Some(Leaderboard { items, total, next_cursor, comparison: Comparison::from_ratios(&ratios) }))
    }

    /// Locks some problems: until this transaction ends, no other can change what is computed from them.
    pub(crate) async fn lock_problems<'p>(
        &mut self,
        problems: impl IntoIterator<Item = &'p ProblemId>,
    ) -> StoreResult<()> {
        // Always in the same order, so that two transactions cannot deadlock.
        let ids: BTreeSet<&str> = problems.into_iter().map(ProblemId::as_str).collect();
        for chunk in ids.into_iter().collect::<Vec<_>>().chunks(ROWS_PER_STATEMENT) {
            let select =
                Statement::new("SELECT id FROM problems WHERE id IN (").push_list(chunk.iter().copied());
            let _locked: Vec<(String,)> =
                self.fetch_all(select.push(") ORDER BY id").push(self.change_row())).await?;
        }
        Ok(())
    }
}

fn point(entry: &Listed) -> ProblemPoint {
    let Listed { problem, best, triton, library, .. } = entry;
    ProblemPoint {
        problem_id: entry.id.clone(),
        method: entry.method,
        dims: problem.dims(),
        intensity: problem.flops() / problem.bytes(),
        problem: problem.clone(),
        tflops: best.tflops.unwrap_or_default(),
        roofline_share: best.roofline_share,
        best_us: best.us,
        triton_us: triton.map(|triton| triton.us),
        triton_roofline_share: triton.and_then(|triton| triton.roofline_share),
        triton_rounds: entry.triton_rounds,
        library_us: library.map(|library| library.us),
        library_roofline_share: library.and_then(|library| library.roofline_share),
        triton_over_library: entry.triton_over_library,
    }
}

/// A problem at a distance, with its entry.
pub(crate) fn described(view: View, problem: Problem, distance: f64, entry: BoardEntry) -> NearestProblem {
    NearestProblem {
        problem_id: view.problem,
        problem,
        method: view.method,
        distance,
        triton: entry.triton,
        library: entry.library,
        triton_over_library: entry.triton_over_library,
    }
}

fn walk(
    slug: &HardwareSlug,
    wanted: &Problem,
    op: Op,
    layout: Layout,
    method: Method,
    onward: bool,
) -> Statement {
    let (from, order) = if onward {
        (") >= (", ") ORDER BY e.m, e.n, e.k LIMIT ")
    } else {
        (") < (", ") ORDER BY e.m DESC, e.n DESC, e.k DESC LIMIT ")
    };
    Statement::new("SELECT p.fields FROM entries e JOIN problems p ON p.id = e.problem WHERE e.hardware = ")
        .push_bind(slug.as_str())
        .push(" AND e.op = ")
        .push_bind(op.as_str())
        .push(" AND e.a_dtype = ")
        .push_bind(wanted.a_dtype.as_str())
        .push(" AND e.scaling = ")
        .push_bind(wanted.scaling.as_str())
        .push(" AND e.b_layout = ")
        .push_bind(layout.as_str())
        .push(" AND e.method = ")
        .push_bind(method.to_string())
        .push(" AND (e.m, e.n, e.k")
        .push(from)
        .push_list([wanted.m, wanted.n, wanted.k])
        .push(order)
        .push_bind(WALK)
}

/// Reads the column `fields` of a problem.
pub(crate) fn problem_of(fields: &str) -> Result<Problem, Damaged> {
    from_json("problem", fields)
}

#[cfg(test)]
mod cursor_tests {
    use super::*;

    #[test]
    fn cursors_round_trip_and_belong_to_one_order() {
        let ranking =
            Ranking { kernels: Kernels::Triton, sort: LeaderboardSort::Gain, order: SortOrder::Ascending };
        for value in [Some(123.456), Some(0.1 + 0.2), None] {
            let cursor = Cursor { value, problem: ProblemId::of(b"p"), method: Method::MEDIAN_COLD_EVENT };
            let text = cursor.encode(ranking);
            assert_eq!(Cursor::decode(&text, ranking), Ok(cursor));
            for other in [
                Ranking { order: SortOrder::Descending, ..ranking },
                Ranking { sort: LeaderboardSort::Time, ..ranking },
                Ranking { kernels: Kernels::Library, ..ranking },
            ] {
                assert!(Cursor::decode(&text, other).is_err(), "{other}");
            }
        }
        for bad in [
            "",
            "triton.gain.asc.",
            "triton.gain.asc.7ff8000000000000.0011223344556677.unspecified",
            "triton.gain.asc.-.x.y",
            "triton.gain.asc.003ff0000000000000.0011223344556677.unspecified",
        ] {
            assert!(Cursor::decode(bad, ranking).is_err(), "{bad}");
        }
    }
}
