use std::future::Future;

use diode_core::ids::{AccountId, Digest, HardwareSlug};
use sha2::{Digest as _, Sha256};
use sqlx::FromRow;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;

use super::statement::Statement;
use crate::blobs::BlobKind;
use crate::store::error::StoreResult;

/// A type that a row of either database can be read into.
pub(crate) trait Row:
    for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin
{
}

impl<T> Row for T where T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin {}

/// Work that only one transaction may do at a time. Other transactions wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exclusive {
    /// To add to the queue of jobs. Otherwise two transactions could together exceed the limit.
    Queue = 1,
    /// To change the owners of uploads. Two transactions that hand over uploads to each other's account would
    /// otherwise deadlock.
    Owners = 2,
    /// To add a snapshot. Otherwise two transactions could together exceed the limit.
    Snapshots = 3,
    /// To add a mail. Otherwise two transactions could together exceed the limit.
    Mails = 4,
}

/// A thing that many transactions may keep at the same time, or one transaction may claim alone.
///
/// Locks of rows are not enough. On Postgres, a transaction can lock a row to keep it while others keep it. So a
/// transaction that claims the row would wait as long as new ones come. With these locks, transactions that come
/// later wait behind the claim.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lockable<'a> {
    Hardware(&'a HardwareSlug),
    Account(&'a AccountId),
    /// A file that uploads or contributed models name. It has no row of its own.
    File(BlobKind, &'a Digest),
}

impl Lockable<'_> {
    /// The number of the thing's lock. The numbers of [`Exclusive`] are small. A digest practically never gives
    /// such a small number.
    pub(crate) fn number(self) -> i64 {
        let name = match self {
            Self::Hardware(slug) => format!("hardware {slug}"),
            Self::Account(id) => format!("account {id}"),
            Self::File(kind, digest) => format!("file {}/{digest}", kind.folder()),
        };
        let digest: [u8; 32] = Sha256::digest(name).into();
        let [a, b, c, d, e, f, g, h, ..] = digest;
        i64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

/// A connection to one of the databases, with the SQL in which the databases differ.
pub(crate) trait Connection: Send {
    /// Begins a transaction whose queries all see the same state.
    const BEGIN_READ: &'static str;

    /// Begins a transaction that will write.
    const BEGIN_WRITE: &'static str;

    /// Ends a query for a row. Other transactions wait for this row until this one has ended.
    const LOCK_ROW: &'static str;

    /// Ends a query for a row, and skips rows that another transaction has locked.
    const SKIP_LOCKED: &'static str;

    /// Ends a query for a row that must exist until this transaction has ended. Other transactions may change the
    /// row.
    const KEEP_ROW: &'static str;

    /// Ends a query for rows that other transactions may keep, but not change, until this one has ended.
    const CHANGE_ROW: &'static str;

    /// Waits for a turn, and keeps it until this transaction has ended. Must be called before anything is locked.
    fn turn(&mut self, turn: Exclusive) -> impl Future<Output = StoreResult<()>> + Send;

    /// Keeps a thing: nobody can claim it until this transaction has ended. Must be called before its row is
    /// locked.
    fn keep(&mut self, thing: Lockable<'_>) -> impl Future<Output = StoreResult<()>> + Send;

    /// Claims a thing: waits until nobody keeps or claims it. Then nobody else can keep or claim it until this
    /// transaction has ended. Must be called before its row is locked.
    fn claim(&mut self, thing: Lockable<'_>) -> impl Future<Output = StoreResult<()>> + Send;

    /// Renews the statistics of tables that have grown much since the last time, if the database chooses indexes
    /// by statistics.
    fn count_grown_tables(&mut self) -> impl Future<Output = StoreResult<()>> + Send;

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
