//! The schema: one text for both databases, embedded in the program. It is listed by hand, because sqlx's macro for
//! this comes only with its compile-time query checker, which this program does not use.

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, SqlSafeStr as _};

/// The number, name and text of each step.
const STEPS: [(i64, &str, &str); 1] = [(1, "schema", include_str!("../../../migrations/0001_schema.sql"))];

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

pub(super) fn sqlite() -> Migrator {
    migrator(str::to_owned)
}

pub(super) fn postgres() -> Migrator {
    migrator(|text| OF_POSTGRES.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to)))
}

fn migrator(spelled: impl Fn(&str) -> String) -> Migrator {
    let step = |(version, name, text): (i64, &'static str, &str)| {
        let sql = AssertSqlSafe(spelled(text)).into_sql_str();
        Migration::new(version, name.into(), MigrationType::Simple, sql, false)
    };
    Migrator::with_migrations(STEPS.map(step).into())
}
