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

/// What only one transaction at a time may do. The others wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Adding to the queue of jobs, so that none counts what another is about to add.
    Queue = 1,
    /// Changing whose uploads are. Two that give uploads to each other would wait for each other.
    Owners = 2,
    /// Adding a snapshot, for the same reason.
    Snapshots = 3,
}

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

    /// Ends a query for a row that must stay until this transaction has ended. It may change meanwhile.
    const KEEP_ROW: &'static str;

    /// Ends a query for rows that other transactions may keep, but not change until this one has ended.
    const CHANGE_ROW: &'static str;

    /// Waits for a turn, and keeps it until this transaction has ended. To be taken before anything is
    /// locked.
    fn turn(&mut self, turn: Turn) -> impl Future<Output = StoreResult<()>> + Send;

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
