//! The database for servers and workers on several machines, which share it.

use std::str::FromStr as _;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, PgPool};

use super::connection::ACQUIRE_TIMEOUT;
use super::error::{StoreError, StoreResult};
use super::schema;

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
pub(crate) async fn open(url: &str) -> StoreResult<PgPool> {
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
    schema::postgres().run(&pool).await?;
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
