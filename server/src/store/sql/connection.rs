use std::future::Future;

use diode_core::ids::{AccountId, Digest, HardwareSlug};
use sha2::{Digest as _, Sha256};
use sqlx::FromRow;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;

use super::statement::Statement;
use crate::blobs::BlobKind;
use crate::store::error::StoreResult;

/// What a row of either database can be read as.
pub(crate) trait Row:
    for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin
{
}

impl<T> Row for T where T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin {}

/// What only one transaction at a time may do. The others wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exclusive {
    /// Adding to the queue of jobs, so that none counts what another is about to add.
    Queue = 1,
    /// Changing whose uploads are. Two that give uploads to each other would wait for each other.
    Owners = 2,
    /// Adding a snapshot, for the same reason.
    Snapshots = 3,
    /// Adding a mail, for the same reason.
    Mails = 4,
}

/// What many transactions may keep at a time, and one alone may claim.
///
/// The locks of rows do not suffice: on Postgres, whoever wants to keep a row that others keep gets it at once,
/// so whoever waits to have it alone waits as long as others come. Here, who comes later waits behind.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lockable<'a> {
    Hardware(&'a HardwareSlug),
    Account(&'a AccountId),
    /// A file that uploads or contributed models name, which has no row of its own.
    File(BlobKind, &'a Digest),
}

impl Lockable<'_> {
    /// The number that stands for it. Those of turns are small, which no digest is.
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
    fn turn(&mut self, turn: Exclusive) -> impl Future<Output = StoreResult<()>> + Send;

    /// Keeps others from claiming a thing until this transaction has ended. To be done before its row is locked.
    fn keep(&mut self, thing: Lockable<'_>) -> impl Future<Output = StoreResult<()>> + Send;

    /// Waits until nobody else keeps or claims a thing, and lets nobody do so until this transaction has ended. To
    /// be done before its row is locked.
    fn claim(&mut self, thing: Lockable<'_>) -> impl Future<Output = StoreResult<()>> + Send;

    /// Renews the database's statistics of tables that have grown much since the last time, where the
    /// database chooses indexes by them.
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
