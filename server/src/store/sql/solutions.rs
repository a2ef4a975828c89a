//! Stored solutions with the problems and config lists they refer to.

use std::collections::BTreeMap;

use diode_core::ids::HardwareSlug;

use super::connection::Connection;
use super::fields::parse;
use super::from_row::from_row;
use super::problems::problem_of;
use super::statement::Statement;
use crate::solutions::{Damaged, StoredSolution, StoredSolutions};
use crate::store::error::StoreResult;
use crate::store::types::View;

/// Which solutions are wanted.
#[derive(Clone, Copy)]
pub(super) enum Selection<'a> {
    Hardware(&'a HardwareSlug),
    View(&'a View),
}

impl Selection<'_> {
    fn push_to(self, statement: Statement) -> Statement {
        let statement = statement.push(" FROM solutions WHERE hardware = ");
        match self {
            Self::Hardware(slug) => statement.push_bind(slug.as_str()),
            Self::View(View { hardware, problem, method }) => statement
                .push_bind(hardware.as_str())
                .push(" AND problem = ")
                .push_bind(problem.as_str())
                .push(" AND method = ")
                .push_bind(method.to_string()),
        }
    }
}

struct SolutionRow {
    problem: String,
    method: String,
    config_list: String,
    columns: Vec<u8>,
}

from_row!(SolutionRow { problem, method, config_list, columns });

impl SolutionRow {
    fn solution(self) -> Result<StoredSolution, Damaged> {
        Ok(StoredSolution {
            problem: parse("problem id", self.problem)?,
            method: parse("method", self.method)?,
            config_list: parse("config list digest", self.config_list)?,
            columns: self.columns,
        })
    }
}

/// The three queries must see the same state.
pub(super) async fn load(db: &mut impl Connection, selection: Selection<'_>) -> StoreResult<StoredSolutions> {
    let select = selection.push_to(Statement::new("SELECT problem, method, config_list, columns"));
    let solutions: Vec<SolutionRow> = db.fetch_all(select.push(" ORDER BY id")).await?;
    let select = Statement::new("SELECT id, fields FROM problems WHERE id IN (SELECT problem");
    let problems: Vec<(String, String)> = db.fetch_all(selection.push_to(select).push(")")).await?;
    let select =
        Statement::new("SELECT digest, packed FROM config_lists WHERE digest IN (SELECT config_list");
    let lists: Vec<(String, Vec<u8>)> = db.fetch_all(selection.push_to(select).push(")")).await?;

    let mut stored = StoredSolutions {
        solutions: solutions.into_iter().map(SolutionRow::solution).collect::<Result<_, _>>()?,
        problems: BTreeMap::new(),
        config_lists: BTreeMap::new(),
    };
    for (id, fields) in problems {
        stored.problems.insert(parse("problem id", id)?, problem_of(&fields)?);
    }
    for (digest, bytes) in lists {
        stored.config_lists.insert(parse("config list digest", digest)?, bytes);
    }
    Ok(stored)
}
