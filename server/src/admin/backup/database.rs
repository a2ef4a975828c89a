//! How each database is written to a file and read back, with its own tools.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr as _;

use anyhow::{Context as _, bail};
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection as _, PgConnection, SqliteConnection};

/// The database that a file comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DatabaseKind {
    Sqlite,
    Postgres,
}

impl DatabaseKind {
    pub(super) fn of(url: &str) -> Self {
        if url.starts_with("postgres") { Self::Postgres } else { Self::Sqlite }
    }

    pub(super) const fn file_name(self) -> &'static str {
        match self {
            Self::Sqlite => "database.sqlite",
            Self::Postgres => "database.pgdump",
        }
    }
}

impl std::fmt::Display for DatabaseKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "Postgres",
        })
    }
}

/// Writes the database to a file, as it is at one moment. Other programs can read and write it meanwhile.
pub(super) async fn save(url: &str, file: &Path) -> anyhow::Result<()> {
    match DatabaseKind::of(url) {
        DatabaseKind::Sqlite => {
            let options = SqliteConnectOptions::from_str(url)?.create_if_missing(false);
            let mut connection = SqliteConnection::connect_with(&options).await?;
            let file = file.to_str().context("the path of a backup must be text")?;
            sqlx::query("VACUUM INTO $1").bind(file).execute(&mut connection).await?;
            connection.close().await?;
        }
        DatabaseKind::Postgres => {
            let mut command = tool("pg_dump", url);
            command.args(["--format=custom", "--no-owner", "--no-privileges", "--file"]).arg(file);
            run(command).await?;
        }
    }
    File::open(file)?.sync_all().with_context(|| format!("cannot sync {}", file.display()))
}

/// Fails if there already is something at the place where a database is to be restored.
pub(super) async fn refuse_used(url: &str) -> anyhow::Result<()> {
    match DatabaseKind::of(url) {
        DatabaseKind::Sqlite => {
            let options = SqliteConnectOptions::from_str(url)?;
            let file = options.get_filename();
            // If there is a log at that place, SQLite would apply it to the restored database.
            let beside = ["-wal", "-shm", "-journal"].map(|end| {
                let mut path = file.as_os_str().to_owned();
                path.push(end);
                PathBuf::from(path)
            });
            let mut used = std::iter::once(file).chain(beside.iter().map(PathBuf::as_path));
            if let Some(used) = used.find(|path| path.exists()) {
                bail!("{}: there is a database already; move it away first", used.display());
            }
        }
        DatabaseKind::Postgres => {
            let mut connection = PgConnection::connect(url).await?;
            let count =
                "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = current_schema()";
            let tables: i64 = sqlx::query_scalar(count).fetch_one(&mut connection).await?;
            connection.close().await?;
            if tables > 0 {
                bail!("the database has {tables} tables already, expected an empty one; create another");
            }
        }
    }
    Ok(())
}

/// Reads a database back from a file: all of it, or nothing.
pub(super) async fn load(url: &str, file: &Path) -> anyhow::Result<()> {
    match DatabaseKind::of(url) {
        DatabaseKind::Sqlite => {
            let options = SqliteConnectOptions::from_str(url)?;
            copy_durably(file, options.get_filename())
        }
        DatabaseKind::Postgres => {
            let mut command = tool("pg_restore", url);
            command
                .args(["--exit-on-error", "--single-transaction", "--no-owner", "--no-privileges"])
                .arg(file);
            run(command).await
        }
    }
}

fn copy_durably(from: &Path, to: &Path) -> anyhow::Result<()> {
    let partial = to.with_added_extension("restoring");
    let copy = || -> io::Result<()> {
        fs::copy(from, &partial)?;
        File::open(&partial)?.sync_all()?;
        fs::rename(&partial, to)?;
        let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    };
    copy().with_context(|| format!("cannot write {}", to.display()))
}

/// A program of PostgreSQL for the database of a URL. The password is passed in the environment, since other
/// users can read a command line.
fn tool(program: &str, url: &str) -> Command {
    let (url, password) = without_password(url);
    let mut command = Command::new(program);
    command.arg("--dbname").arg(url);
    if let Some(password) = password {
        command.env("PGPASSWORD", password);
    }
    command
}

fn without_password(url: &str) -> (String, Option<String>) {
    let split = || {
        let (scheme, rest) = url.split_once("://")?;
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (who, host) = authority.rsplit_once('@')?;
        let (user, password) = who.split_once(':')?;
        let password = percent_decode_str(password).decode_utf8_lossy().into_owned();
        Some((format!("{scheme}://{user}@{host}{path}"), Some(password)))
    };
    split().unwrap_or_else(|| (url.to_owned(), None))
}

async fn run(mut command: Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = match tokio::task::spawn_blocking(move || command.output()).await? {
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(
            "{program} is not there; install PostgreSQL's client programs, of the server's version or newer"
        ),
        other => other.with_context(|| format!("cannot run {program}"))?,
    };
    if !output.status.success() {
        bail!("{program} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_on_a_command_line() {
        let with = without_password("postgres://ada:p%40ss%3A@db.example:5432/diode?sslmode=require");
        let expected = "postgres://ada@db.example:5432/diode?sslmode=require".to_owned();
        assert_eq!(with, (expected.clone(), Some("p@ss:".to_owned())));
        assert_eq!(without_password(&expected), (expected, None));
    }
}
