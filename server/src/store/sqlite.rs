//! The embedded database: one file, one writer, many readers.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::time::Duration;

use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{Sqlite, SqliteConnection};

use super::error::{StoreError, StoreResult};
use super::migrations;
use super::sql::connection::{Connection, Exclusive, Lockable, Row};
use super::sql::statement::Statement;
use super::sql::{ACQUIRE_TIMEOUT, SqlStore};
use crate::path_identity::PathIdentity;

/// How long a write waits for others. The largest upload takes some ten seconds on a slow disk, and
/// another may wait before this one.
const BUSY_TIMEOUT: Duration = Duration::from_secs(60);

/// Readers never block each other; more than there are cores to run them is no gain.
const READERS: u32 = 8;

/// Kilobytes of pages that the writer keeps, as a negative number. An upload changes a page of every index for nearly each of
/// its problems, since ids are digests: with the usual 2 MB it would read and write the same pages again and again.
const WRITERS_CACHE: &str = "-16384";

/// Pages in the log after which it is moved into the file: 32 MB. Later uploads change many of the same pages, which are
/// moved once then. What is in the log is synced, too.
const PAGES_IN_LOG: &str = "8192";

const EXPECTED: &str = "expected sqlite:FILE or postgres://USER@HOST/DATABASE";

/// Everything in one SQLite file.
///
/// Writes queue up on a single connection, so they never meet `SQLITE_BUSY`
/// within this process; readers see the last committed state meanwhile (WAL).
pub type SqliteStore = SqlStore<Sqlite>;

impl SqliteStore {
    /// Opens or creates the file of a URL like `sqlite:diode.db`, and migrates it.
    pub async fn open(url: &str) -> StoreResult<Self> {
        let refuse = |reason: String| StoreError::Url { url: url.to_owned(), reason };
        if !url.starts_with("sqlite:") {
            // The URL may hold a password, so only its scheme is repeated.
            let scheme = url.split(':').next().unwrap_or_default();
            return Err(StoreError::Url { url: format!("{scheme}:…"), reason: EXPECTED.to_owned() });
        }
        if url.contains(":memory:") || url.contains("mode=memory") {
            return Err(refuse(format!("{EXPECTED}; data in memory is not durable")));
        }
        let options = SqliteConnectOptions::from_str(url)
            .map_err(|error| refuse(error.to_string()))?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // A receipt promises that the data survives a power cut.
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(BUSY_TIMEOUT);
        // Until the tables are there: two processes cannot make the same ones at the same time.
        let _opening = opening(options.get_filename()).await.map_err(|error| refuse(error.to_string()))?;
        let writers = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(ACQUIRE_TIMEOUT.max(BUSY_TIMEOUT))
            // Where SQLite itself has ended a transaction, as on a full disk, sqlx counts it as open for
            // ever. Another connection takes the place of such a one.
            .before_acquire(|connection, _| {
                let usable = !sqlx::Connection::is_in_transaction(&*connection);
                Box::pin(async move { Ok(usable) })
            })
            .connect_with(
                options
                    .clone()
                    .pragma("cache_size", WRITERS_CACHE)
                    .pragma("wal_autocheckpoint", PAGES_IN_LOG),
            )
            .await?;
        migrations::sqlite().run(&writers).await?;
        let place = PathIdentity::of(options.get_filename()).map_err(|error| refuse(error.to_string()))?;
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .connect_with(options.read_only(true).create_if_missing(false))
            .await?;
        Ok(Self::new(readers, writers, Some(place)))
    }
}

/// The file that a URL names; `None` for what is no URL of SQLite.
pub(super) fn file_of(url: &str) -> Option<PathBuf> {
    let options = url.starts_with("sqlite:").then(|| SqliteConnectOptions::from_str(url).ok())?;
    Some(options?.get_filename().to_owned())
}

/// Waits until no other process opens the same file, and keeps others waiting until it is dropped.
async fn opening(database: &Path) -> std::io::Result<File> {
    let path = database.with_added_extension("opening");
    let lock = move || {
        let file = File::options().create(true).truncate(false).write(true).open(path)?;
        file.lock()?;
        Ok(file)
    };
    tokio::task::spawn_blocking(lock).await.unwrap_or_else(|error| Err(std::io::Error::other(error)))
}

impl Connection for SqliteConnection {
    /// In WAL mode every transaction reads from one snapshot.
    const BEGIN_READ: &'static str = "BEGIN";

    /// Takes the lock of the file at once. Otherwise two processes could both
    /// read first, and neither could write then.
    const BEGIN_WRITE: &'static str = "BEGIN IMMEDIATE";

    /// The lock of the file covers every row.
    const LOCK_ROW: &'static str = "";
    const SKIP_LOCKED: &'static str = "";
    const KEEP_ROW: &'static str = "";
    const CHANGE_ROW: &'static str = "";

    async fn turn(&mut self, _: Exclusive) -> StoreResult<()> {
        Ok(())
    }

    async fn keep(&mut self, _: Lockable<'_>) -> StoreResult<()> {
        Ok(())
    }

    async fn claim(&mut self, _: Lockable<'_>) -> StoreResult<()> {
        Ok(())
    }

    /// It chooses the right indexes without.
    async fn count_grown_tables(&mut self) -> StoreResult<()> {
        Ok(())
    }

    async fn execute(&mut self, statement: Statement) -> StoreResult<u64> {
        let (text, values) = statement.unnumbered().into_parts::<SqliteArguments>()?;
        Ok(sqlx::query_with(text, values).execute(self).await?.rows_affected())
    }

    async fn fetch_all<T: Row>(&mut self, statement: Statement) -> StoreResult<Vec<T>> {
        let (text, values) = statement.unnumbered().into_parts::<SqliteArguments>()?;
        Ok(sqlx::query_as_with(text, values).fetch_all(self).await?)
    }
}
