use std::future::Future;

use sqlx::FromRow;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;

use super::statement::Statement;
use crate::store::error::StoreResult;

/// What a row of either database can be read as.
pub(crate) trait Row:
    for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin
{
}

impl<T> Row for T where T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin {}

/// A connection to one of the databases, and the SQL in which they differ.
pub(crate) trait Connection: Send {
    /// Begins a transaction whose queries all see the same state.
    const BEGIN_READ: &'static str;

    /// Begins a transaction that will write.
    const BEGIN_WRITE: &'static str;

    /// Ends a query for a row on which other transactions must wait until this
    /// one has ended.
    const LOCK_ROW: &'static str;

    /// Ends a query for a row that no other transaction has locked.
    const SKIP_LOCKED: &'static str;

    /// Returns how many rows were changed.
    fn execute(&mut self, statement: Statement) -> impl Future<Output = StoreResult<u64>> + Send;

    fn fetch_all<T: Row>(&mut self, statement: Statement)
    -> impl Future<Output = StoreResult<Vec<T>>> + Send;

    /// For statements that return one row at most.
    fn fetch_optional<T: Row>(
        &mut self,
        statement: Statement,
    ) -> impl Future<Output = StoreResult<Option<T>>> + Send {
        async { Ok(self.fetch_all(statement).await?.pop()) }
    }

    /// For statements that return exactly one row.
    fn fetch_one<T: Row>(&mut self, statement: Statement) -> impl Future<Output = StoreResult<T>> + Send {
        async { Ok(self.fetch_optional(statement).await?.ok_or(sqlx::Error::RowNotFound)?) }
    }
}
