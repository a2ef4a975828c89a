//! Stored solutions, with the problems and config lists that they refer to.

use std::ops::RangeInclusive;

use diode_core::Method;
use diode_core::ids::{HardwareSlug, ProblemId, UploadId};

use super::problems::problem_of;
use super::standing;
use crate::solutions::{Damaged, StoredSolution, StoredSolutions};
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::{optional, parse};
use crate::store::from_row::from_row;
use crate::store::statement::Statement;
use crate::store::types::View;

/// The conditions for solutions that count, and for solutions that count or are fenced.
const COUNTS: &str = " AND standing = 0";
const NOT_QUARANTINED: &str = " AND standing < 2";

/// Which solutions are loaded.
#[derive(Clone, Copy)]
pub(super) enum Selection<'a> {
    Hardware(&'a HardwareSlug),
    View(&'a View),
    Numbered(&'a HardwareSlug, &'a RangeInclusive<i64>),
    Problems(&'a HardwareSlug, Method, &'a RangeInclusive<ProblemId>),
    Upload(&'a UploadId),
}

impl Selection<'_> {
    fn push_to(self, statement: Statement) -> Statement {
        let of = |slug: &HardwareSlug, statement: Statement| {
            statement.push(" FROM solutions WHERE hardware = ").push_bind(slug.as_str())
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
            // Includes fenced solutions, because they are compared with the others.
            Self::View(View { hardware, problem, method }) => of(hardware, statement)
                .push(" AND problem = ")
                .push_bind(problem.as_str())
                .push(" AND method = ")
                .push_bind(method.to_string())
                .push(NOT_QUARANTINED),
            Self::Upload(upload) => statement
                .push(" FROM solutions WHERE id IN (SELECT solution FROM sent WHERE upload = ")
                .push_bind(upload.as_str())
                .push(")")
                .push(NOT_QUARANTINED),
        }
    }
}

pub(super) struct SolutionRow {
    id: i64,
    contributor: Option<String>,
    standing: i64,
    pub(super) problem: String,
    pub(super) method: String,
    pub(super) config_list: String,
    columns: Vec<u8>,
}

from_row!(SolutionRow { id, contributor, standing, problem, method, config_list, columns });

impl SolutionRow {
    pub(super) fn solution(self) -> Result<StoredSolution, Damaged> {
        Ok(StoredSolution {
            number: self.id,
            contributor: optional("account id", self.contributor)?,
            standing: standing::read(self.standing)?,
            problem: parse("problem id", self.problem)?,
            method: parse("method", self.method)?,
            config_list: parse("config list digest", self.config_list)?,
            columns: self.columns,
        })
    }
}

/// Loads solutions with their problems and config lists. Must be called in one transaction, so that its three
/// queries see the same state.
pub(super) async fn load(db: &mut Connection, selection: Selection<'_>) -> StoreResult<StoredSolutions> {
    let select = selection
        .push_to(Statement::new("SELECT id, contributor, standing, problem, method, config_list, columns"));
    let solutions: Vec<SolutionRow> = db.fetch_all(select.push(" ORDER BY id")).await?;
    let select = Statement::new("SELECT id, fields FROM problems WHERE id IN (SELECT problem");
    let problems: Vec<(String, String)> = db.fetch_all(selection.push_to(select).push(")")).await?;
    let select =
        Statement::new("SELECT digest, packed FROM config_lists WHERE digest IN (SELECT config_list");
    let lists: Vec<(String, Vec<u8>)> = db.fetch_all(selection.push_to(select).push(")")).await?;

    let mut stored = StoredSolutions::default();
    for row in solutions {
        match row.solution() {
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
