//! Stored solutions, with the problems and config lists that they refer to.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use diode_core::ids::{Digest, HardwareSlug, ProblemId, UploadId};
use diode_core::{Method, Problem};

use crate::boards::board_store::problem_of;
use crate::boards::entry_store::View;
use crate::store::Store;
use crate::store::StoreResult;
use crate::store::connection::Connection;
use crate::store::fields::{Readable, parse, readable_row, unsigned};
use crate::store::statement::{ROWS_PER_STATEMENT, Statement};
use crate::uploads::solutions::{Damaged, StoredSolution, StoredSolutions};

/// The conditions for solutions that count, and for solutions that count or are fenced.
const COUNTS: &str = " AND standing = 0";

const NOT_QUARANTINED: &str = " AND standing < 2";

/// Which solutions are loaded.
#[derive(Clone, Copy)]
pub(crate) enum Selection<'a> {
    Hardware(&'a HardwareSlug),
    Numbered(&'a HardwareSlug, &'a RangeInclusive<i64>),
    Problems(&'a HardwareSlug, Method, &'a RangeInclusive<ProblemId>),
    Upload(&'a UploadId),
}

impl Selection<'_> {
    fn push_to(self, statement: Statement) -> Statement {
        let of = |slug: &HardwareSlug, statement: Statement| {
            statement.push(" FROM solutions s WHERE hardware = ").push_bind(slug.as_str())
        };
        match self {
            Self::Hardware(slug) => of(slug, statement).push(COUNTS),
            Self::Numbered(slug, numbers) => of(slug, statement)
                .push(" AND id >= ")
                .push_bind(*numbers.start())
                .push(" AND id <= ")
                .push_bind(*numbers.end())
                .push(COUNTS),
            Self::Problems(slug, method, problems) => of(slug, statement)
                .push(" AND problem >= ")
                .push_bind(problems.start().as_str())
                .push(" AND problem <= ")
                .push_bind(problems.end().as_str())
                .push(" AND method = ")
                .push_bind(method.to_string())
                .push(COUNTS),
            Self::Upload(upload) => statement
                .push(" FROM solutions s WHERE id IN (SELECT solution FROM sent WHERE upload = ")
                .push_bind(upload.as_str())
                .push(")")
                .push(NOT_QUARANTINED),
        }
    }
}

/// The columns of a stored solution `s`.
const COLUMNS: &str = "s.id AS number, s.digest, s.hardware, s.problem, s.method, s.contributor, s.vouched, \
                       (SELECT a.created_at FROM accounts a WHERE a.id = s.contributor) AS since, s.standing, \
                       s.config_list, s.columns, s.timings, s.failures, s.best_us";

/// A solution with its problem and its packed list of configs.
type WholeSolution = (StoredSolution, Problem, Vec<u8>);

readable_row!(WholeSolution { ..solution: StoredSolution, fields: String, packed } => {
    (solution, problem_of(&fields)?, packed)
});

/// Joins the views in `wanted` with their solutions `s`.
pub(crate) const SOLUTIONS: &str = " FROM wanted w JOIN solutions s \
                                    ON s.hardware = w.hardware AND s.problem = w.problem AND s.method = \
                                    w.method";

impl Store {
    /// The solutions of an upload that count or are fenced.
    pub async fn upload_solutions(&self, upload: &UploadId) -> StoreResult<StoredSolutions> {
        self.read_transaction().await?.load_solutions(Selection::Upload(upload)).await
    }

    /// The solutions of one view: those that count, and fenced ones, which are compared with them. Empty if there are
    /// none. One statement, because a page asks for it.
    pub async fn view_solutions(
        &self,
        View { hardware, problem, method }: &View,
    ) -> StoreResult<StoredSolutions> {
        let select = Statement::new("SELECT ")
            .push(COLUMNS)
            .push(", p.fields, c.packed FROM solutions s JOIN problems p ON p.id = s.problem JOIN config_lists c ")
            .push("ON c.digest = s.config_list WHERE s.hardware = ")
            .push_bind(hardware.as_str())
            .push(" AND s.problem = ")
            .push_bind(problem.as_str())
            .push(" AND s.method = ")
            .push_bind(method.to_string())
            .push(" AND s.standing < 2 ORDER BY s.id");
        let rows: Vec<Readable<WholeSolution>> = self.reader().await?.fetch_all(select).await?;
        let mut stored = StoredSolutions::default();
        for Readable(row) in rows {
            match row {
                Ok((solution, problem, list)) => {
                    stored.problems.insert(solution.problem.clone(), problem);
                    stored.config_lists.insert(solution.config_list.clone(), list);
                    stored.solutions.push(solution);
                }
                Err(damaged) => stored.damaged.push(damaged),
            }
        }
        Ok(stored)
    }

    /// Every solution of a hardware that counts. Empty if there are none.
    pub async fn training_data(&self, slug: &HardwareSlug) -> StoreResult<StoredSolutions> {
        self.read_transaction().await?.load_solutions(Selection::Hardware(slug)).await
    }

    /// The uploads that count and have sent some solutions.
    pub async fn uploads_of_solutions(&self, solutions: &BTreeSet<i64>) -> StoreResult<Vec<UploadId>> {
        let db = &mut self.read_transaction().await?;
        let (numbers, mut uploads) = (solutions.iter().copied().collect::<Vec<_>>(), BTreeSet::new());
        for chunk in numbers.chunks(ROWS_PER_STATEMENT) {
            let select = Statement::new(
                "SELECT DISTINCT n.upload FROM sent n JOIN uploads u ON u.id = n.upload \
                 WHERE u.standing = 0 AND n.solution IN (",
            );
            let rows: Vec<(String,)> =
                db.fetch_all(select.push_list(chunk.iter().copied()).push(")")).await?;
            uploads.extend(rows.into_iter().map(|(id,)| id));
        }
        Ok(uploads.into_iter().map(|id| parse("upload id", id)).collect::<Result<_, Damaged>>()?)
    }

    /// How many timings and failures each solution of a hardware has. Each solution is given by its number, in the
    /// order in which they arrived.
    pub async fn solution_sizes(&self, slug: &HardwareSlug) -> StoreResult<Vec<(i64, u64)>> {
        self.reader().await?.solution_sizes(slug).await
    }

    /// The solutions of a hardware with these numbers.
    pub async fn numbered_solutions(
        &self,
        slug: &HardwareSlug,
        numbers: RangeInclusive<i64>,
    ) -> StoreResult<StoredSolutions> {
        self.read_transaction().await?.load_solutions(Selection::Numbered(slug, &numbers)).await
    }

    /// How many timings each method of a hardware has.
    pub async fn method_sizes(&self, slug: &HardwareSlug) -> StoreResult<Vec<(Method, u64)>> {
        let db = &mut self.reader().await?;
        let select = "SELECT method, CAST(SUM(timings) AS BIGINT) FROM solutions WHERE hardware = $1 AND \
                      standing = 0 \
                      GROUP BY method ORDER BY method";
        let rows: Vec<(String, i64)> = db.fetch_all(Statement::new(select).bind(slug.as_str())).await?;
        let size = |(method, size)| Ok((parse("method", method)?, unsigned("size", size)?));
        Ok(rows.into_iter().map(size).collect::<Result<_, Damaged>>()?)
    }

    /// How many timings each problem of a hardware has by one method, in the order of ids.
    pub async fn problem_sizes(
        &self,
        slug: &HardwareSlug,
        method: Method,
    ) -> StoreResult<Vec<(ProblemId, u64)>> {
        let db = &mut self.reader().await?;
        let select = "SELECT problem, CAST(SUM(timings) AS BIGINT) FROM solutions \
                      WHERE hardware = $1 AND method = $2 AND standing = 0 GROUP BY problem ORDER BY \
                      problem";
        let select = Statement::new(select).bind(slug.as_str()).bind(method.to_string());
        let rows: Vec<(String, i64)> = db.fetch_all(select).await?;
        let size = |(problem, size)| Ok((parse("problem id", problem)?, unsigned("size", size)?));
        Ok(rows.into_iter().map(size).collect::<Result<_, Damaged>>()?)
    }

    /// The solutions of a hardware by one method, for the problems between two ids.
    pub async fn problems_solutions(
        &self,
        slug: &HardwareSlug,
        method: Method,
        problems: RangeInclusive<ProblemId>,
    ) -> StoreResult<StoredSolutions> {
        self.read_transaction().await?.load_solutions(Selection::Problems(slug, method, &problems)).await
    }
}

impl Connection {
    pub(crate) async fn solution_sizes(&mut self, slug: &HardwareSlug) -> StoreResult<Vec<(i64, u64)>> {
        let select =
            "SELECT id, timings + failures FROM solutions WHERE hardware = $1 AND standing = 0 ORDER BY id";
        let rows: Vec<(i64, i64)> = self.fetch_all(Statement::new(select).bind(slug.as_str())).await?;
        Ok(rows
            .into_iter()
            .map(|(id, size)| Ok((id, unsigned("size", size)?)))
            .collect::<Result<_, Damaged>>()?)
    }

    /// Loads solutions with their problems and config lists. Must be called in one transaction, so that its three
    /// queries see the same state.
    pub(crate) async fn load_solutions(&mut self, selection: Selection<'_>) -> StoreResult<StoredSolutions> {
        let select = selection.push_to(Statement::new("SELECT ").push(COLUMNS));
        let solutions: Vec<Readable<StoredSolution>> = self.fetch_all(select.push(" ORDER BY id")).await?;
        let select = Statement::new("SELECT id, fields FROM problems WHERE id IN (SELECT problem");
        let problems: Vec<(String, String)> = self.fetch_all(selection.push_to(select).push(")")).await?;
        let select =
            Statement::new("SELECT digest, packed FROM config_lists WHERE digest IN (SELECT config_list");
        let lists: Vec<(String, Vec<u8>)> = self.fetch_all(selection.push_to(select).push(")")).await?;

        let mut stored = StoredSolutions::default();
        for Readable(row) in solutions {
            match row {
                Ok(solution) => stored.solutions.push(solution),
                Err(damaged) => stored.damaged.push(damaged),
            }
        }
        for (id, fields) in problems {
            match parse("problem id", id).and_then(|id| Ok((id, problem_of(&fields)?))) {
                Ok((id, problem)) => drop(stored.problems.insert(id, problem)),
                Err(damaged) => stored.damaged.push(damaged),
            }
        }
        for (digest, bytes) in lists {
            match parse("config list digest", digest) {
                Ok(digest) => drop(stored.config_lists.insert(digest, bytes)),
                Err(damaged) => stored.damaged.push(damaged),
            }
        }
        Ok(stored)
    }

    /// How many timings each view has. Views without solutions are left out.
    pub(crate) async fn view_timings(&mut self, views: &[&View]) -> StoreResult<BTreeMap<View, u64>> {
        let select = wanted_views(views)
            .push(" SELECT s.hardware, s.problem, s.method, CAST(SUM(s.timings) AS BIGINT)")
            .push(SOLUTIONS)
            .push(" WHERE s.standing < 2 GROUP BY s.hardware, s.problem, s.method");
        let rows: Vec<(String, String, String, i64)> = self.fetch_all(select).await?;
        let sized = |(hardware, problem, method, timings): (String, String, String, i64)| {
            Ok((read_view(hardware, problem, method)?, unsigned("timing count", timings)?))
        };
        rows.into_iter().map(sized).collect()
    }

    /// The result of [`Self::load_solutions`] for each view. Views without solutions are left out.
    pub(crate) async fn load_views(
        &mut self,
        views: &[&View],
    ) -> StoreResult<BTreeMap<View, StoredSolutions>> {
        let select =
            wanted_views(views).push(" SELECT ").push(COLUMNS).push(SOLUTIONS).push(" WHERE s.standing < 2");
        let rows: Vec<Readable<StoredSolution>> = self.fetch_all(select).await?;
        let mut loaded: BTreeMap<View, StoredSolutions> = BTreeMap::new();
        let mut lists: BTreeMap<Digest, BTreeSet<View>> = BTreeMap::new();
        for Readable(row) in rows {
            let solution = match row {
                Ok(solution) => solution,
                Err(damaged) => {
                    tracing::error!("left out of a consensus: {damaged}");
                    continue;
                }
            };
            let view = solution.view();
            lists.entry(solution.config_list.clone()).or_default().insert(view.clone());
            loaded.entry(view).or_default().solutions.push(solution);
        }
        for stored in loaded.values_mut() {
            stored.solutions.sort_unstable_by_key(|solution| solution.number);
        }
        self.add_problems_to(&mut loaded).await?;
        self.add_lists_to(&lists, &mut loaded).await?;
        Ok(loaded)
    }

    async fn add_problems_to(&mut self, loaded: &mut BTreeMap<View, StoredSolutions>) -> StoreResult<()> {
        let ids: BTreeSet<&str> = loaded.keys().map(|view| view.problem.as_str()).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let select = Statement::new("SELECT id, fields FROM problems WHERE id IN (").push_list(ids);
        let rows: Vec<(String, String)> = self.fetch_all(select.push(")")).await?;
        let problems: BTreeMap<String, String> = rows.into_iter().collect();
        for (view, stored) in loaded {
            let Some(fields) = problems.get(view.problem.as_str()) else { continue };
            match problem_of(fields) {
                Ok(problem) => drop(stored.problems.insert(view.problem.clone(), problem)),
                Err(damaged) => stored.damaged.push(damaged),
            }
        }
        Ok(())
    }

    /// `lists` names the views that need each list.
    async fn add_lists_to(
        &mut self,
        lists: &BTreeMap<Digest, BTreeSet<View>>,
        loaded: &mut BTreeMap<View, StoredSolutions>,
    ) -> StoreResult<()> {
        let digests: Vec<&str> = lists.keys().map(Digest::as_str).collect();
        for chunk in digests.chunks(ROWS_PER_STATEMENT) {
            let select = Statement::new("SELECT digest, packed FROM config_lists WHERE digest IN (");
            let select = select.push_list(chunk.iter().copied()).push(")");
            let rows: Vec<(String, Vec<u8>)> = self.fetch_all(select).await?;
            for (digest, bytes) in rows {
                let digest: Digest = parse("config list digest", digest)?;
                for view in lists.get(&digest).into_iter().flatten() {
                    if let Some(stored) = loaded.get_mut(view) {
                        stored.config_lists.insert(digest.clone(), bytes.clone());
                    }
                }
            }
        }
        Ok(())
    }
}

/// The views as a table `wanted`, which a query can join.
pub(crate) fn wanted_views(views: &[&View]) -> Statement {
    let rows = views.iter().map(|view| {
        [view.hardware.as_str().into(), view.problem.as_str().into(), view.method.to_string().into()]
    });
    Statement::new("WITH wanted (hardware, problem, method) AS (").push_rows(rows).push(")")
}

fn read_view(hardware: String, problem: String, method: String) -> StoreResult<View> {
    let problem: ProblemId = parse("problem id", problem)?;
    Ok(View { hardware: parse("hardware slug", hardware)?, problem, method: parse("method", method)? })
}
