//! The database for servers and workers on several machines, which share it.

use std::str::FromStr as _;
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Postgres};

use super::error::{StoreError, StoreResult};
use super::migrations;
use super::sql::connection::{Connection, Exclusive, Lockable, Row};
use super::sql::statement::Statement;
use super::sql::{ACQUIRE_TIMEOUT, SqlStore};

/// How many connections one process opens. By default Postgres admits 100, which several servers share.
const CONNECTIONS: u32 = 16;

/// How long a connection that has worked is assumed to work. A check each time would cost as much as a small query, and
/// sqlx also checks when a connection is given back.
const TRUSTED: Duration = Duration::from_secs(1);

/// Tables in which many rows have changed since Postgres last counted them: more than 1,000 plus a fifth of the rows.
/// Without counts, Postgres assumes that a board is short and sorts all of it for each page.
const GROWN_TABLES: &str = "SELECT quote_ident(relname) FROM pg_stat_user_tables \
    WHERE schemaname = current_schema() AND n_mod_since_analyze > 1000 + n_live_tup / 5";

/// Everything in one Postgres database.
pub type PostgresStore = SqlStore<Postgres>;

impl PostgresStore {
    /// Connects to the database of a URL such as `postgres://user@host/diode`, and migrates it.
    pub async fn open(url: &str) -> StoreResult<Self> {
        // The URL may have a password, so no message repeats the URL.
        let options = PgConnectOptions::from_str(url).map_err(|error| StoreError::Url {
            url: "the Postgres URL".to_owned(),
            reason: error.to_string(),
        })?;
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
        migrations::postgres().run(&pool).await?;
        Ok(Self::new(pool.clone(), pool, None))
    }
}

impl Connection for PgConnection {
    const BEGIN_READ: &'static str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

    /// Read committed: after a wait for a lock, the next statement sees what the other transaction has committed.
    const BEGIN_WRITE: &'static str = "BEGIN ISOLATION LEVEL READ COMMITTED";

    const LOCK_ROW: &'static str = " FOR UPDATE";

    /// With this, two workers never wait for each other, and never get the same job.
    const SKIP_LOCKED: &'static str = " FOR UPDATE SKIP LOCKED";

    const KEEP_ROW: &'static str = " FOR KEY SHARE";

    const CHANGE_ROW: &'static str = " FOR NO KEY UPDATE";

    async fn turn(&mut self, turn: Exclusive) -> StoreResult<()> {
        sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(turn as i64).execute(self).await?;
        Ok(())
    }

    async fn keep(&mut self, thing: Lockable<'_>) -> StoreResult<()> {
        let lock = sqlx::query("SELECT pg_advisory_xact_lock_shared($1)").bind(thing.number());
        lock.execute(self).await?;
        Ok(())
    }

    async fn claim(&mut self, thing: Lockable<'_>) -> StoreResult<()> {
        sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(thing.number()).execute(self).await?;
        Ok(())
    }

    async fn count_grown_tables(&mut self) -> StoreResult<()> {
        let grown: Vec<(String,)> = sqlx::query_as(GROWN_TABLES).fetch_all(&mut *self).await?;
        for (name,) in grown {
            // Skips tables that another server, or Postgres itself, is counting now.
            let analyze = format!("ANALYZE (SKIP_LOCKED) {name}");
            sqlx::query(AssertSqlSafe(analyze)).execute(&mut *self).await?;
        }
        Ok(())
    }

    async fn execute(&mut self, statement: Statement) -> StoreResult<u64> {
        let (text, values) = statement.into_parts::<PgArguments>()?;
        Ok(sqlx::query_with(text, values).execute(self).await?.rows_affected())
    }

    async fn fetch_all<T: Row>(&mut self, statement: Statement) -> StoreResult<Vec<T>> {
        let (text, values) = statement.into_parts::<PgArguments>()?;
        Ok(sqlx::query_as_with(text, values).fetch_all(self).await?)
    }
}
