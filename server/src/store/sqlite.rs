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

/// How long a write waits for other writes. On a slow disk the largest upload takes some ten seconds, and another
/// upload may wait before this one.
const BUSY_TIMEOUT: Duration = Duration::from_secs(60);

/// How many connections read. Readers never block each other. More readers than cores would gain nothing.
const READERS: u32 = 8;

/// The size of the writer's cache in kilobytes, as a negative number. An upload changes nearly one page of each index
/// for every problem, because ids are digests. With the usual 2 MB the writer would read and write the same pages again
/// and again.
const WRITERS_CACHE: &str = "-16384";

/// How many pages the log gets before they are moved into the file: 32 MB. Later uploads change many of the same
/// pages, which are then moved only once. No data is at risk meanwhile, because the log is synced, too.
const PAGES_IN_LOG: &str = "8192";

const EXPECTED: &str = "expected sqlite:FILE or postgres://USER@HOST/DATABASE";

/// Everything in one SQLite file.
///
/// Writes queue up on a single connection, so they never get `SQLITE_BUSY` within this process. Meanwhile readers see
/// the last committed state (WAL).
pub type SqliteStore = SqlStore<Sqlite>;

impl SqliteStore {
    /// Opens or creates the file of a URL such as `sqlite:diode.db`, and migrates it.
    pub async fn open(url: &str) -> StoreResult<Self> {
        let refuse = |reason: String| StoreError::Url { url: url.to_owned(), reason };
        if !url.starts_with("sqlite:") {
            // The URL may have a password, so the message repeats only its scheme.
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
        // The lock is held until the tables exist, because two processes cannot create the same tables at the same
        // time.
        let _opening = opening(options.get_filename()).await.map_err(|error| refuse(error.to_string()))?;
        let writers = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(ACQUIRE_TIMEOUT.max(BUSY_TIMEOUT))
            // If SQLite itself ends a transaction, as on a full disk, sqlx counts it as open for ever. Such a
            // connection is replaced by a new one.
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

/// The file that a URL names; `None` if it is no SQLite URL.
pub(super) fn file_of(url: &str) -> Option<PathBuf> {
    let options = url.starts_with("sqlite:").then(|| SqliteConnectOptions::from_str(url).ok())?;
    Some(options?.get_filename().to_owned())
}

/// Waits until no other process opens the same file. Other processes wait until the returned file is dropped.
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
    /// In WAL mode, each transaction reads from one snapshot.
    const BEGIN_READ: &'static str = "BEGIN";

    /// Takes the lock of the file at once. Otherwise two processes could both read first, and then neither could write.
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

    /// SQLite chooses the right indexes without counts.
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
