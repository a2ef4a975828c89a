//! Which solutions are asked for, and the three queries that fetch them with
//! the problems and config lists they refer to.

use std::collections::BTreeMap;

use diode_core::ids::HardwareSlug;
use sqlx::{Database, QueryBuilder};

use super::batches::Bind;
use super::rows::{SolutionRow, parse, problem};
use super::{PackedSolutions, StoreResult, View};

#[derive(Clone, Copy)]
pub(super) enum Selection<'a> {
    Hardware(&'a HardwareSlug),
    View(&'a View),
}

impl Selection<'_> {
    pub(super) fn solutions<DB: Database>(self) -> QueryBuilder<DB>
    where
        String: Bind<DB>,
    {
        let mut sql = QueryBuilder::new("SELECT problem, method, config_list, columns FROM solutions");
        self.push_where(&mut sql);
        sql.push(" ORDER BY id");
        sql
    }

    pub(super) fn problems<DB: Database>(self) -> QueryBuilder<DB>
    where
        String: Bind<DB>,
    {
        let mut sql =
            QueryBuilder::new("SELECT id, fields FROM problems WHERE id IN (SELECT problem FROM solutions");
        self.push_where(&mut sql);
        sql.push(")");
        sql
    }

    pub(super) fn config_lists<DB: Database>(self) -> QueryBuilder<DB>
    where
        String: Bind<DB>,
    {
        let mut sql = QueryBuilder::new(
            "SELECT digest, packed FROM config_lists WHERE digest IN (SELECT config_list FROM solutions",
        );
        self.push_where(&mut sql);
        sql.push(")");
        sql
    }

    fn push_where<DB: Database>(self, sql: &mut QueryBuilder<DB>)
    where
        String: Bind<DB>,
    {
        let hardware = match self {
            Self::Hardware(slug) => slug,
            Self::View(view) => &view.hardware,
        };
        sql.push(" WHERE hardware = ").push_bind(hardware.to_string());
        if let Self::View(view) = self {
            sql.push(" AND problem = ").push_bind(view.problem.to_string());
            sql.push(" AND method = ").push_bind(view.method.to_string());
        }
    }
}

/// Puts the answers of the three queries together.
pub(super) fn assemble(
    solutions: Vec<SolutionRow>,
    problems: Vec<(String, String)>,
    config_lists: Vec<(String, Vec<u8>)>,
) -> StoreResult<PackedSolutions> {
    let mut packed = PackedSolutions {
        solutions: solutions.into_iter().map(SolutionRow::packed).collect::<StoreResult<_>>()?,
        problems: BTreeMap::new(),
        config_lists: BTreeMap::new(),
    };
    for (id, fields) in problems {
        packed.problems.insert(parse("problem id", id)?, problem(&fields)?);
    }
    for (digest, bytes) in config_lists {
        packed.config_lists.insert(parse("config list digest", digest)?, bytes);
    }
    Ok(packed)
}
