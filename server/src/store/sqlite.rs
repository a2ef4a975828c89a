//! The embedded database: one file, one writer, many readers.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use super::connection::{ACQUIRE_TIMEOUT, Pools};
use super::error::{StoreError, StoreResult};
use super::schema;
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

/// Opens or creates the file of a URL such as `sqlite:diode.db`, and makes its tables.
///
/// Writes queue up on a single connection, so they never get `SQLITE_BUSY` within this process. Meanwhile readers see
/// the last committed state (WAL).
pub(super) async fn open(url: &str) -> StoreResult<(Pools, PathIdentity)> {
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
    let writer = SqlitePoolOptions::new()
        .max_connections(1)
        .acquire_timeout(ACQUIRE_TIMEOUT.max(BUSY_TIMEOUT))
        // If SQLite itself ends a transaction, as on a full disk, sqlx counts it as open for ever. Such a
        // connection is replaced by a new one.
        .before_acquire(|connection, _| {
            let usable = !sqlx::Connection::is_in_transaction(&*connection);
            Box::pin(async move { Ok(usable) })
        })
        .connect_with(
            options.clone().pragma("cache_size", WRITERS_CACHE).pragma("wal_autocheckpoint", PAGES_IN_LOG),
        )
        .await?;
    schema::sqlite().run(&writer).await?;
    let place = PathIdentity::of(options.get_filename()).map_err(|error| refuse(error.to_string()))?;
    let readers = SqlitePoolOptions::new()
        .max_connections(READERS)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .connect_with(options.read_only(true).create_if_missing(false))
        .await?;
    Ok((Pools::Sqlite { readers, writer }, place))
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
