//! A connection to one of the two databases, and the SQL in which they differ.

use std::time::Duration;

use diode_core::ids::{AccountId, Digest, HardwareSlug};
use sha2::{Digest as _, Sha256};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{FromRow, PgConnection, PgPool, Postgres, Sqlite, SqliteConnection, SqlitePool, Transaction};

use super::error::{StoreError, StoreResult};
use super::statement::Statement;
use crate::blobs::BlobKind;
use crate::store::fields::Readable;

/// How long a request waits for a connection before the server asks the client to come back later.
pub(super) const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// In SQLite's WAL mode, each transaction reads from one snapshot.
const SQLITE_READ: &str = "BEGIN";
/// Takes the lock of the file at once. Otherwise two processes could both read first, and then neither could write.
const SQLITE_WRITE: &str = "BEGIN IMMEDIATE";
const POSTGRES_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
/// Read committed: after a wait for a lock, the next statement sees what the other transaction has committed.
const POSTGRES_WRITE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// The connections of a process.
pub(super) enum Pools {
    Sqlite { readers: SqlitePool, writer: SqlitePool },
    Postgres(PgPool),
}

impl Pools {
    /// A connection for a single query.
    pub(super) async fn reader(&self) -> StoreResult<Connection> {
        Ok(match self {
            Self::Sqlite { readers, .. } => Connection::Sqlite(readers.acquire().await?),
            Self::Postgres(pool) => Connection::Postgres(pool.acquire().await?),
        })
    }

    /// A transaction for queries that must all see the same state.
    pub(super) async fn snapshot(&self) -> StoreResult<Connection> {
        Ok(match self {
            Self::Sqlite { readers, .. } => Connection::InSqlite(readers.begin_with(SQLITE_READ).await?),
            Self::Postgres(pool) => Connection::InPostgres(pool.begin_with(POSTGRES_READ).await?),
        })
    }

    /// A transaction that writes.
    pub(super) async fn writer(&self) -> StoreResult<Connection> {
        Ok(match self {
            Self::Sqlite { writer, .. } => Connection::InSqlite(writer.begin_with(SQLITE_WRITE).await?),
            Self::Postgres(pool) => Connection::InPostgres(pool.begin_with(POSTGRES_WRITE).await?),
        })
    }

    /// Waits for running statements and closes every connection.
    pub(super) async fn close(&self) {
        match self {
            Self::Sqlite { readers, writer } => {
                readers.close().await;
                writer.close().await;
            }
            Self::Postgres(pool) => pool.close().await,
        }
    }
}

/// A connection to one of the databases, alone or in a transaction. A transaction that is dropped is rolled back.
pub(crate) enum Connection {
    Sqlite(PoolConnection<Sqlite>),
    InSqlite(Transaction<'static, Sqlite>),
    Postgres(PoolConnection<Postgres>),
    InPostgres(Transaction<'static, Postgres>),
}

enum Live<'c> {
    Sqlite(&'c mut SqliteConnection),
    Postgres(&'c mut PgConnection),
}

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
}

/// A thing that many transactions may keep at the same time, or one transaction may claim alone.
///
/// Row locks are not enough: on Postgres, new transactions can keep a row that others keep, so one that claims the
/// row might never get its turn. With these locks, later transactions wait behind the claim.
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
    fn number(self) -> i64 {
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

impl Connection {
    fn live(&mut self) -> Live<'_> {
        match self {
            Self::Sqlite(connection) => Live::Sqlite(connection),
            Self::InSqlite(transaction) => Live::Sqlite(transaction),
            Self::Postgres(connection) => Live::Postgres(connection),
            Self::InPostgres(transaction) => Live::Postgres(transaction),
        }
    }

    fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres(_) | Self::InPostgres(_))
    }

    /// Returns how many rows were changed.
    pub(crate) async fn execute(&mut self, statement: Statement) -> StoreResult<u64> {
        Ok(match self.live() {
            Live::Sqlite(connection) => {
                let (text, values) = statement.unnumbered().into_parts::<SqliteArguments>()?;
                sqlx::query_with(text, values).execute(connection).await?.rows_affected()
            }
            Live::Postgres(connection) => {
                let (text, values) = statement.into_parts::<PgArguments>()?;
                sqlx::query_with(text, values).execute(connection).await?.rows_affected()
            }
        })
    }

    pub(crate) async fn fetch_all<T: Row>(&mut self, statement: Statement) -> StoreResult<Vec<T>> {
        Ok(match self.live() {
            Live::Sqlite(connection) => {
                let (text, values) = statement.unnumbered().into_parts::<SqliteArguments>()?;
                sqlx::query_as_with(text, values).fetch_all(connection).await?
            }
            Live::Postgres(connection) => {
                let (text, values) = statement.into_parts::<PgArguments>()?;
                sqlx::query_as_with(text, values).fetch_all(connection).await?
            }
        })
    }

    /// For statements that return one row at most.
    pub(crate) async fn fetch_optional<T: Row>(&mut self, statement: Statement) -> StoreResult<Option<T>> {
        Ok(self.fetch_all(statement).await?.pop())
    }

    /// For statements that return exactly one row.
    pub(crate) async fn fetch_one<T: Row>(&mut self, statement: Statement) -> StoreResult<T> {
        Ok(self.fetch_optional(statement).await?.ok_or(sqlx::Error::RowNotFound)?)
    }

    /// The rows as values of a type. Fails if one of them is damaged.
    pub(crate) async fn read_all<T>(&mut self, statement: Statement) -> StoreResult<Vec<T>>
    where
        Readable<T>: Row,
    {
        let rows: Vec<Readable<T>> = self.fetch_all(statement).await?;
        Ok(rows.into_iter().map(|Readable(row)| row).collect::<Result<_, _>>()?)
    }

    /// Like [`Self::read_all`], for statements that return one row at most.
    pub(crate) async fn read_optional<T>(&mut self, statement: Statement) -> StoreResult<Option<T>>
    where
        Readable<T>: Row,
    {
        Ok(self.read_all(statement).await?.pop())
    }

    /// Makes what a transaction has written durable.
    pub(crate) async fn commit(self) -> StoreResult<()> {
        match self {
            Self::InSqlite(transaction) => transaction.commit().await?,
            Self::InPostgres(transaction) => transaction.commit().await?,
            Self::Sqlite(_) | Self::Postgres(_) => {}
        }
        Ok(())
    }

    /// The end of a query that locks its row: other transactions that lock it wait until this one has ended. On
    /// SQLite, the lock of the file covers every row.
    pub(crate) fn lock_row(&self) -> &'static str {
        if self.is_postgres() { " FOR UPDATE" } else { "" }
    }

    /// The end of a query that locks its row and skips rows that another transaction has locked. So two workers never
    /// wait for each other, and never get the same job.
    pub(crate) fn skip_locked(&self) -> &'static str {
        if self.is_postgres() { " FOR UPDATE SKIP LOCKED" } else { "" }
    }

    /// The end of a query for a row that must exist until this transaction has ended. Other transactions may change
    /// the row.
    pub(crate) fn keep_row(&self) -> &'static str {
        if self.is_postgres() { " FOR KEY SHARE" } else { "" }
    }

    /// The end of a query for rows that other transactions may keep, but not change, until this one has ended.
    pub(crate) fn change_row(&self) -> &'static str {
        if self.is_postgres() { " FOR NO KEY UPDATE" } else { "" }
    }

    /// Waits for a turn, and keeps it until this transaction has ended. Must be called before anything is locked.
    pub(crate) async fn turn(&mut self, turn: Exclusive) -> StoreResult<()> {
        self.advisory_lock("SELECT pg_advisory_xact_lock($1)", turn as i64).await
    }

    /// Keeps a thing: nobody can claim it until this transaction has ended. Must be called before its row is
    /// locked.
    pub(crate) async fn keep(&mut self, thing: Lockable<'_>) -> StoreResult<()> {
        self.advisory_lock("SELECT pg_advisory_xact_lock_shared($1)", thing.number()).await
    }

    /// Claims a thing: waits until nobody keeps or claims it. Then nobody else can keep or claim it until this
    /// transaction has ended. Must be called before its row is locked.
    pub(crate) async fn claim(&mut self, thing: Lockable<'_>) -> StoreResult<()> {
        self.advisory_lock("SELECT pg_advisory_xact_lock($1)", thing.number()).await
    }

    /// Takes an advisory lock of Postgres. SQLite needs none, because it has only one writer.
    async fn advisory_lock(&mut self, lock: &'static str, number: i64) -> StoreResult<()> {
        match self.live() {
            Live::Sqlite(_) => {}
            Live::Postgres(connection) => {
                sqlx::query(lock).bind(number).execute(connection).await?;
            }
        }
        Ok(())
    }
}

/// How often a transaction is tried at most.
const TRIES: u32 = 5;

/// The pause before the second try. Each further pause is longer by the same time.
const PAUSE: Duration = Duration::from_millis(20);

/// The tries of a transaction.
#[derive(Default)]
pub(crate) struct Attempts(u32);

impl Attempts {
    /// Whether another try is due. If so, pauses first.
    pub(crate) async fn again(&mut self, error: &StoreError) -> bool {
        self.0 += 1;
        if self.0 >= TRIES || !error.is_conflict() {
            return false;
        }
        tracing::debug!("trying a transaction again: {error}");
        tokio::time::sleep(PAUSE * self.0).await;
        true
    }
}

/// Runs statements in one transaction that writes. If it conflicts with another, it begins again: Postgres
/// ends one of two transactions that deadlock.
///
/// With `if`, the transaction is committed only if the outcome matches this pattern.
macro_rules! in_transaction {
    ($store:expr, async |$db:ident| $run:block) => {
        in_transaction!($store, async |$db| $run, if _)
    };
    ($store:expr, async |$db:ident| $run:block, if $kept:pat) => {{
        let mut attempts = $crate::store::connection::Attempts::default();
        loop {
            let mut transaction = $store.writer().await?;
            let $db = &mut transaction;
            let run = async { $run };
            let ended: $crate::store::StoreResult<_> = match run.await {
                Ok(outcome) => {
                    #[allow(clippy::redundant_pattern_matching, reason = "the pattern is the caller's")]
                    let kept = matches!(outcome, $kept);
                    if kept { transaction.commit().await.map(|()| outcome) } else { Ok(outcome) }
                }
                Err(error) => {
                    // Releases the locks before the pause.
                    drop(transaction);
                    Err(error)
                }
            };
            match ended {
                Err(error) if attempts.again(&error).await => {}
                ended => break ended,
            }
        }
    }};
}

pub(crate) use in_transaction;
