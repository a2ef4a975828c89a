//! Copies a SQLite database into Postgres, row by row. Both have the same tables and columns.

use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use futures_util::TryStreamExt as _;
use sqlx::migrate::Migrate as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{
    AssertSqlSafe, Connection as _, Executor as _, PgConnection, Postgres, QueryBuilder, Row as _,
    SqliteConnection,
};

use crate::store::databases::postgres_schema;

/// The most parameters and about the most bytes of one statement.
const PARAMETERS: usize = 32_000;
const BYTES: usize = 8 << 20;

/// What was copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Copied {
    pub(super) tables: usize,
    pub(super) rows: u64,
}

/// A column, and which of SQLite's types its values have.
struct Column {
    name: String,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Integer,
    Real,
    Text,
    Blob,
}

/// Copies all of a SQLite file into an empty Postgres database: everything, or nothing. Nobody can write to the file
/// meanwhile, unless it is only read, like that of a backup.
pub(super) async fn copy(file: &Path, is_backup: bool, to: &str) -> anyhow::Result<Copied> {
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(false).read_only(is_backup);
    let mut from =
        SqliteConnection::connect_with(&options).await.with_context(|| file.display().to_string())?;
    let begin = if is_backup { "BEGIN" } else { "BEGIN IMMEDIATE" };
    from.execute(begin).await.with_context(|| format!("{}: is written to", file.display()))?;
    let mut target = PgConnection::connect(to).await?;
    let mut all = target.begin().await?;
    postgres_schema().run(&mut *all).await?;
    check_version(&mut from, &mut all).await.with_context(|| file.display().to_string())?;
    let mut copied = Copied::default();
    // Tables come in the order of the schema, where each refers only to earlier ones and to itself.
    let select = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
                  AND name <> '_sqlx_migrations' ORDER BY rowid";
    let tables: Vec<String> = sqlx::query_scalar(select).fetch_all(&mut from).await?;
    ensure!(!tables.is_empty(), "{}: has no tables, expected the database of a server", file.display());
    for table in &tables {
        copied.rows +=
            copy_table(&mut from, &mut all, table).await.with_context(|| format!("table {table}"))?;
        copied.tables += 1;
    }
    all.execute("ANALYZE").await?;
    all.commit().await?;
    target.close().await?;
    from.close().await?;
    Ok(copied)
}

/// Fails if the file was written by another version of the schema.
async fn check_version(from: &mut SqliteConnection, to: &mut PgConnection) -> anyhow::Result<()> {
    let select = "SELECT MAX(version) FROM _sqlx_migrations";
    let has: Option<i64> = sqlx::query_scalar(select).fetch_one(from).await?;
    let is = to.list_applied_migrations("_sqlx_migrations").await?.iter().map(|step| step.version).max();
    if has != is {
        let words = |version: Option<i64>| version.map_or("none".to_owned(), |version| version.to_string());
        bail!(
            "its tables have version {}, expected {}; let this version of diode-server open it once: diode-server migrate",
            words(has),
            words(is)
        );
    }
    Ok(())
}

async fn copy_table(from: &mut SqliteConnection, to: &mut PgConnection, table: &str) -> anyhow::Result<u64> {
    let columns = columns(from, table).await?;
    let names: Vec<String> = columns.iter().map(|column| format!("\"{}\"", column.name)).collect();
    let names = names.join(", ");
    let insert = format!("INSERT INTO \"{table}\" ({names}) OVERRIDING SYSTEM VALUE ");
    let select = format!("SELECT {names} FROM \"{table}\"");
    let mut rows = sqlx::query(AssertSqlSafe(select)).fetch(&mut *from);
    let (mut waiting, mut bytes, mut count) = (Vec::new(), 0, 0);
    loop {
        let next = rows.try_next().await?;
        let is_end = next.is_none();
        if let Some(row) = next {
            bytes += size(&row, &columns)?;
            waiting.push(row);
        }
        let is_full = bytes >= BYTES || (waiting.len() + 1) * columns.len() > PARAMETERS;
        if !waiting.is_empty() && (is_full || is_end) {
            count += waiting.len() as u64;
            write(to, &insert, &columns, &waiting).await?;
            (waiting, bytes) = (Vec::new(), 0);
        }
        if is_end {
            break;
        }
    }
    drop(rows);
    continue_numbers(to, table).await?;
    Ok(count)
}

async fn columns(from: &mut SqliteConnection, table: &str) -> anyhow::Result<Vec<Column>> {
    let select = "SELECT name, type FROM pragma_table_info($1) ORDER BY cid";
    let columns: Vec<(String, String)> = sqlx::query_as(select).bind(table).fetch_all(from).await?;
    let column = |(name, kind): (String, String)| {
        let kind = match kind.as_str() {
            "INTEGER" => Kind::Integer,
            "REAL" => Kind::Real,
            "TEXT" => Kind::Text,
            "BLOB" => Kind::Blob,
            other => bail!("column {name}: got the type {other}"),
        };
        Ok(Column { name, kind })
    };
    columns.into_iter().map(column).collect()
}

/// About how many bytes a row has.
fn size(row: &SqliteRow, columns: &[Column]) -> sqlx::Result<usize> {
    let size = |(at, column): (usize, &Column)| {
        Ok(match column.kind {
            Kind::Integer | Kind::Real => 8,
            Kind::Text => row.try_get::<Option<&str>, _>(at)?.map_or(0, str::len),
            Kind::Blob => row.try_get::<Option<&[u8]>, _>(at)?.map_or(0, <[u8]>::len),
        })
    };
    columns.iter().enumerate().map(size).sum()
}

async fn write(
    to: &mut PgConnection,
    insert: &str,
    columns: &[Column],
    rows: &[SqliteRow],
) -> anyhow::Result<()> {
    let mut statement = QueryBuilder::<Postgres>::new(insert);
    let mut read = Ok(());
    statement.push_values(rows, |mut values, row| {
        for (at, column) in columns.iter().enumerate() {
            let bound = match column.kind {
                Kind::Integer => row.try_get(at).map(|value: Option<i64>| {
                    values.push_bind(value);
                }),
                Kind::Real => row.try_get(at).map(|value: Option<f64>| {
                    values.push_bind(value);
                }),
                Kind::Text => row.try_get(at).map(|value: Option<String>| {
                    values.push_bind(value);
                }),
                Kind::Blob => row.try_get(at).map(|value: Option<Vec<u8>>| {
                    values.push_bind(value);
                }),
            };
            if let Err(error) = bound {
                read = Err(error);
            }
        }
    });
    read?;
    statement.build().execute(to).await?;
    Ok(())
}

/// Lets Postgres number new rows after those that there are.
async fn continue_numbers(to: &mut PgConnection, table: &str) -> anyhow::Result<()> {
    let select = "SELECT column_name::text FROM information_schema.columns \
                  WHERE table_schema = current_schema() AND table_name = $1 AND is_identity = 'YES'";
    let numbered: Vec<String> = sqlx::query_scalar(select).bind(table).fetch_all(&mut *to).await?;
    for column in numbered {
        let next = format!(
            "SELECT setval(pg_get_serial_sequence('\"{table}\"', '{column}'), \
             (SELECT COALESCE(MAX(\"{column}\"), 0) + 1 FROM \"{table}\"), false)"
        );
        sqlx::query(AssertSqlSafe(next)).execute(&mut *to).await?;
    }
    Ok(())
}
