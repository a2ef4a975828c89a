//! The two databases: SQLite, embedded, with one file, one writer and many readers; and Postgres, which servers and
//! workers on several machines share.
//!
//! The schema is one text for both, embedded in the program. It is listed by hand, because sqlx's macro for
//! this comes only with its compile-time query checker, which this program does not use.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::time::Duration;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, Connection as _, PgPool, SqlSafeStr as _};

use crate::readiness::PathIdentity;
use crate::store::connection::{ACQUIRE_TIMEOUT, Pools};
use crate::store::error::{StoreError, StoreResult};

/// How many connections one process opens. By default Postgres admits 100, which several servers share.
const CONNECTIONS: u32 = 16;

/// How long a connection that has worked is assumed to work. A check each time would cost as much as a small query, and
/// sqlx also checks when a connection is given back.
const TRUSTED: Duration = Duration::from_secs(1);

/// Tables in which many rows have changed since Postgres last counted them: more than 1,000 plus a fifth of the rows.
/// Without counts, Postgres assumes that a board is short and sorts all of it for each page.
const GROWN_TABLES: &str = "SELECT quote_ident(relname) FROM pg_stat_user_tables \
    WHERE schemaname = current_schema() AND n_mod_since_analyze > 1000 + n_live_tup / 5";

/// Connects to the database of a URL such as `postgres://user@host/diode`, and makes its tables.
pub(crate) async fn open_postgres(url: &str) -> StoreResult<PgPool> {
    // The URL may have a password, so no message repeats the URL.
    let options = PgConnectOptions::from_str(url)
        .map_err(|error| StoreError::Url { url: "the Postgres URL".to_owned(), reason: error.to_string() })?;
    let pool = PgPoolOptions::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .test_before_acquire(false)
        .before_acquire(|connection, known| {
            Box::pin(async move {
                // If the check fails, sqlx opens another connection.
                Ok(known.idle_for < TRUSTED || connection.ping().await.is_ok())
            })
        })
        .connect_with(options)
        .await?;
    postgres_schema().run(&pool).await?;
    Ok(pool)
}

/// Lets Postgres count tables again that have grown much.
pub(crate) async fn count_grown_tables(pool: &PgPool) -> StoreResult<()> {
    let mut connection = pool.acquire().await?;
    let grown: Vec<(String,)> = sqlx::query_as(GROWN_TABLES).fetch_all(&mut *connection).await?;
    for (name,) in grown {
        // Skips tables that another server, or Postgres itself, is counting now.
        let analyze = format!("ANALYZE (SKIP_LOCKED) {name}");
        sqlx::query(AssertSqlSafe(analyze)).execute(&mut *connection).await?;
    }
    Ok(())
}

/// How long a write waits for other writes. On a slow disk the largest upload takes some ten seconds, and another
/// upload may wait before this one.
const BUSY_TIMEOUT: Duration = Duration::from_secs(60);

/// How many connections read. Readers never block each other. More readers than cores would gain nothing.
const READERS: u32 = 8;

/// The size of each reader's cache in kilobytes, as a negative number. A board with a filter looks at most entries of a
/// hardware; those of the shipped data take 6 MB. With the usual 2 MB, each such board would read them from the file again.
const READERS_CACHE: &str = "-8192";

/// How many rows a reader gets ahead of the task that reads them. With the usual 50, the two would wait for each other.
const ROWS_AHEAD: usize = 1024;

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
pub(super) async fn open_sqlite(url: &str) -> StoreResult<(Pools, PathIdentity)> {
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
    sqlite_schema().run(&writer).await?;
    let place = PathIdentity::of(options.get_filename()).map_err(|error| refuse(error.to_string()))?;
    let readers = SqlitePoolOptions::new()
        .max_connections(READERS)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .connect_with(
            options
                .read_only(true)
                .create_if_missing(false)
                .pragma("cache_size", READERS_CACHE)
                .row_buffer_size(ROWS_AHEAD),
        )
        .await?;
    Ok((Pools::Sqlite { readers, writer }, place))
}

/// The file that a URL names; `None` if it is no SQLite URL.
pub(crate) fn file_of(url: &str) -> Option<PathBuf> {
    let options = url.starts_with("sqlite:").then(|| SqliteConnectOptions::from_str(url).ok())?;
    Some(options?.get_filename().to_owned())
}

/// Tells others, until the returned file is dropped, that a server or a worker works on the database; only that of a SQLite
/// file, which can be taken from under it.
pub(crate) fn work_on(url: &str) -> std::io::Result<Option<File>> {
    let Some(file) = file_of(url) else { return Ok(None) };
    let file = lock_file(&file, "working")?;
    file.try_lock_shared().map_err(|_| std::io::Error::other("the database is being moved to Postgres"))?;
    Ok(Some(file))
}

/// Keeps servers and workers from starting on a SQLite file until the result is dropped; `None` if one works on it.
pub(crate) fn keep_from_work(database: &Path) -> std::io::Result<Option<File>> {
    let file = lock_file(database, "working")?;
    Ok(file.try_lock().is_ok().then_some(file))
}

fn lock_file(database: &Path, extension: &str) -> std::io::Result<File> {
    let path = database.with_added_extension(extension);
    File::options().create(true).truncate(false).write(true).open(path)
}

/// Waits until no other process opens the same file. Other processes wait until the returned file is dropped.
async fn opening(database: &Path) -> std::io::Result<File> {
    let database = database.to_owned();
    let lock = move || {
        let file = lock_file(&database, "opening")?;
        file.lock()?;
        Ok(file)
    };
    tokio::task::spawn_blocking(lock).await.unwrap_or_else(|error| Err(std::io::Error::other(error)))
}

/// The number, name and text of each step.
const STEPS: [(i64, &str, &str); 1] = [(1, "schema", include_str!("../../../migrations/0001_schema.sql"))];

/// The number of the last step: the version of the tables that this program works on.
pub(crate) const LATEST: i64 = STEPS[STEPS.len() - 1].0;

/// What Postgres calls the types and options of SQLite, the longest first. Its text sorts by bytes, so that keyset
/// pages have one order on every server.
const OF_POSTGRES: [(&str, &str); 7] = [
    ("INTEGER PRIMARY KEY", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"),
    ("INTEGER", "BIGINT"),
    ("REAL", "DOUBLE PRECISION"),
    ("BLOB", "BYTEA"),
    ("TEXT", "TEXT COLLATE \"C\""),
    (" STRICT, WITHOUT ROWID;", ";"),
    (" STRICT;", ";"),
];

pub(super) fn sqlite_schema() -> Migrator {
    migrator(str::to_owned)
}

pub(crate) fn postgres_schema() -> Migrator {
    migrator(|text| OF_POSTGRES.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to)))
}

fn migrator(spelled: impl Fn(&str) -> String) -> Migrator {
    let step = |(version, name, text): (i64, &'static str, &str)| {
        let sql = AssertSqlSafe(spelled(text)).into_sql_str();
        Migration::new(version, name.into(), MigrationType::Simple, sql, false)
    };
    Migrator::with_migrations(STEPS.map(step).into())
}
