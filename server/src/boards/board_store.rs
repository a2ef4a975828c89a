//! Pages of a leaderboard, and the problems that are most like a given one.
//!
//! Boards are read by keyset pages along an index, with the same order of ties everywhere.

use std::collections::BTreeSet;

use diode_api::{
    Kernels, Leaderboard, LeaderboardRow, LeaderboardSort, NearestProblem, ProblemFilter, ProblemPoint,
    ProblemView, SortOrder,
};
use diode_core::ids::{HardwareSlug, ProblemId};
use diode_core::table::distance;
use diode_core::{Comparison, Invalid, Layout, Method, Op, Problem};

use crate::boards::consensus::BoardEntry;
use crate::boards::entry_store::{View, read_entry};
use crate::page_cache::Remembered;
use crate::store::Store;
use crate::store::StoreResult;
use crate::store::connection::Connection;
use crate::store::fields::{from_json, parse, readable_row};
use crate::store::statement::{ROWS_PER_STATEMENT, Statement};
use crate::uploads::solutions::Damaged;

/// What [`Totals`] are computed of: the entries of a hardware that pass a filter.
pub(crate) type Counted = (HardwareSlug, ProblemFilter);

/// The totals over all rows of a board.
#[derive(Clone, Copy, Default)]
pub(crate) struct Totals {
    rows: u64,
    comparison: Comparison,
}

/// The rows with the sort value, or the rows without it.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    WithValue,
    WithoutValue,
}

/// How many problems of one op and layout are read in one direction. Two ops, two layouts and two directions
/// make at most 2,048 problems.
const WALK: i64 = 256;

// `entry` is the whole entry of a problem in float32, whose config may round.
readable_row!(ProblemPoint {
    fields: String, method, tflops, roofline_share, best_us, triton_us, triton_roofline_share, library_us,
    library_roofline_share, triton_over_library, entry: Option<String>
} => {
    let problem = problem_of(&fields)?;
    let entry = entry.as_deref().map(read_entry).transpose()?;
    let triton = entry.and_then(|entry| entry.triton);
    ProblemPoint {
        problem_id: problem.id(),
        method: parse("method", method)?,
        dims: problem.dims(),
        intensity: problem.flops() / problem.bytes(),
        triton_rounds: triton.is_some_and(|triton| triton.config.rounds(&problem)),
        problem,
        tflops,
        roofline_share,
        best_us,
        triton_us,
        triton_roofline_share,
        library_us,
        library_roofline_share,
        triton_over_library,
    }
});

/// The most problems that are read: enough, because problems of the same size and type differ only in op, bias
/// and layouts.
const MOST: i64 = 64;

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
        let totals = &self.totals;
        let db = &mut self.read_transaction().await?;
        let Totals { rows: total, comparison } = db.board_totals(totals, slug, &query.filter).await?;
        let rows = db.board_rows(slug, query, total).await?;

        let limit = query.limit as usize;
        let more = rows.len() > limit;
        let (items, cursors): (Vec<_>, Vec<Cursor>) = rows.into_iter().take(limit).unzip();
        let last = cursors.last().filter(|_| more);
        let next_cursor = last.map(|cursor| cursor.encode(query.ranking));
        Ok(Leaderboard { items, total, next_cursor, comparison })
    }

    /// One point for each problem that passes a filter and has a rate, by the method with the most timings. If more
    /// than `cap` problems pass, returns an even sample of them.
    pub async fn problem_points(
        &self,
        slug: &HardwareSlug,
        filter: &ProblemFilter,
        cap: u32,
    ) -> StoreResult<Vec<ProblemPoint>> {
        let db = &mut self.reader().await?;
        // Problem ids are digests, so the first ids are an even sample. They are read by the primary key: the plus
        // keeps SQLite from reading the whole index of rates instead.
        let select = Statement::new(
            "SELECT p.fields, e.* FROM (SELECT problem, method, tflops, roofline_share, best_us, triton_us, \
             triton_roofline_share, library_us, library_roofline_share, triton_over_library, \
             CASE WHEN a_dtype = 'float32' THEN entry END AS entry, ROW_NUMBER() OVER (PARTITION BY problem ORDER BY timings DESC, method) AS place FROM entries e",
        );
        let select = push_filter(select, slug, filter).push(
            " AND +e.tflops >= 0 AND e.problem <= (SELECT MAX(problem) FROM (SELECT DISTINCT problem FROM \
             entries e",
        );
        let select = push_filter(select, slug, filter)
            .push(" AND +e.tflops >= 0 ORDER BY problem LIMIT ")
            .push_bind(i64::from(cap))
            .push(") AS first)) e JOIN problems p ON p.id = e.problem WHERE e.place = 1 ORDER BY e.problem");
        db.read_all(select).await
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

    /// The hardware and methods by which a problem was measured, sorted. Empty for an unknown problem.
    pub async fn problem_views(&self, id: &ProblemId) -> StoreResult<Vec<ProblemView>> {
        let db = &mut self.reader().await?;
        let select = Statement::new(
            "SELECT DISTINCT hardware, method FROM solutions WHERE problem = $1 AND standing = 0 \
             ORDER BY hardware, method",
        );
        let rows: Vec<(String, String)> = db.fetch_all(select.bind(id.as_str())).await?;
        let view = |(hardware, method): (String, String)| {
            Ok(ProblemView { hardware: parse("hardware slug", hardware)?, method: parse("method", method)? })
        };
        rows.into_iter().map(view).collect()
    }
}

impl Connection {
    async fn board_totals(
        &mut self,
        totals: &Remembered<Counted, Totals>,
        slug: &HardwareSlug,
        filter: &ProblemFilter,
    ) -> StoreResult<Totals> {
        let Some(revision) = self.hardware_revision(slug).await? else { return Ok(Totals::default()) };
        let counted = (slug.clone(), filter.clone());
        if let Some(totals) = totals.get(&counted, revision) {
            return Ok(totals);
        }
        // One walk along `entries_by_shape`, which has the ratio and all that filters look at.
        let select = Statement::new("SELECT e.triton_over_library FROM entries e");
        let rows: Vec<(Option<f64>,)> = self.fetch_all(push_filter(select, slug, filter)).await?;
        let ratios: Vec<f64> = rows.iter().filter_map(|(ratio,)| *ratio).collect();
        let found = Totals { rows: rows.len() as u64, comparison: Comparison::from_ratios(&ratios) };
        totals.put(counted, revision, found);
        Ok(found)
    }

    /// One page and the row after it, which shows whether there is another page; each row with the cursor of a page that
    /// ends with it. Rows with the sort value come first, from a query of their own. Both queries follow an index and
    /// stop at their limits. `total` is the number of rows of all pages.
    async fn board_rows(
        &mut self,
        slug: &HardwareSlug,
        query: &BoardQuery,
        total: u64,
    ) -> StoreResult<Vec<(LeaderboardRow, Cursor)>> {
        let wanted = i64::from(query.limit) + 1;
        let mut rows: Vec<(String, String, String, Option<f64>)> = match &query.after {
            Some(Cursor { value: None, .. }) => Vec::new(),
            _ => self.fetch_all(page(slug, query, Part::WithValue, wanted)).await?,
        };
        let missing = wanted - rows.len() as i64;
        // If the first page has all rows, none is without the value.
        let has_all = query.after.is_none() && rows.len() as u64 >= total;
        if missing > 0 && !has_all {
            rows.extend(self.fetch_all(page(slug, query, Part::WithoutValue, missing)).await?);
        }
        let read = |(fields, method, entry, value): (String, String, String, Option<f64>)| {
            let method = parse("method", method)?;
            let row = read_entry(&entry)?.row(problem_of(&fields)?, method);
            let cursor = Cursor { value, problem: row.problem_id.clone(), method };
            Ok((row, cursor))
        };
        rows.into_iter().map(read).collect()
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
pub(crate) fn value(sort: LeaderboardSort, kernels: Kernels) -> &'static str {
    use {Kernels as K, LeaderboardSort as S};
    match (sort, kernels) {
        (S::Tflops, K::Everything) => "e.tflops",
        (S::Tflops, K::Triton) => "e.triton_tflops",
        (S::Tflops, K::Library) => "e.library_tflops",
        (S::Time, K::Everything) => "e.best_us",
        (S::Time, K::Triton) => "e.triton_us",
        (S::Time, K::Library) => "e.library_us",
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

/// Adds the conditions to a statement that calls the entries `e`.
pub(crate) fn push_filter(select: Statement, slug: &HardwareSlug, filter: &ProblemFilter) -> Statement {
    let mut select = select.push(" WHERE e.hardware = ").push_bind(slug.as_str());
    let texts = [
        (" AND e.op = ", filter.op.map(|v| v.to_string())),
        (" AND e.a_dtype = ", filter.dtype.map(|v| v.to_string())),
        (" AND e.scaling = ", filter.scaling.map(|v| v.to_string())),
        (" AND e.b_layout = ", filter.b_layout.map(|v| v.to_string())),
        (" AND e.method = ", filter.method.map(|v| v.to_string())),
    ];
    for (condition, text) in texts {
        if let Some(text) = text {
            select = select.push(condition).push_bind(text);
        }
    }
    if let Some(aligned) = filter.aligned {
        let both =
            if aligned { " AND e.n % 8 = 0 AND e.k % 8 = 0" } else { " AND (e.n % 8 <> 0 OR e.k % 8 <> 0)" };
        select = select.push(both);
    }
    let bounds = [
        (" AND e.m >= ", filter.min_m),
        (" AND e.m <= ", filter.max_m),
        (" AND e.n >= ", filter.min_n),
        (" AND e.n <= ", filter.max_n),
        (" AND e.k >= ", filter.min_k),
        (" AND e.k <= ", filter.max_k),
    ];
    for (condition, bound) in bounds {
        if let Some(bound) = bound {
            select = select.push(condition).push_bind(bound);
        }
    }
    select
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
