//! The migrations, embedded. Written out because sqlx's macro for it comes only
//! with its compile-time query checker, which nothing here uses.

use sqlx::SqlSafeStr as _;
use sqlx::SqlStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// A migration's number, name and text.
type Embedded = (i64, &'static str, &'static str);

const SQLITE: &[Embedded] = &[(1, "initial", include_str!("../../../migrations/sqlite/0001_initial.sql"))];

const POSTGRES: &[Embedded] =
    &[(1, "initial", include_str!("../../../migrations/postgres/0001_initial.sql"))];

pub(super) fn sqlite() -> Migrator {
    migrator(SQLITE)
}

pub(super) fn postgres() -> Migrator {
    migrator(POSTGRES)
}

fn migrator(embedded: &[Embedded]) -> Migrator {
    let migration = |&(version, name, text): &Embedded| {
        let sql: SqlStr = text.into_sql_str();
        Migration::new(version, name.into(), MigrationType::Simple, sql, false)
    };
    Migrator::with_migrations(embedded.iter().map(migration).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_migration_file_is_embedded() {
        for (folder, embedded) in [("sqlite", SQLITE), ("postgres", POSTGRES)] {
            let files = std::fs::read_dir(format!("../migrations/{folder}")).unwrap();
            let mut files: Vec<_> = files.map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
            files.sort();
            let names: Vec<_> = embedded.iter().map(|(v, name, _)| format!("{v:04}_{name}.sql")).collect();
            assert_eq!(files, names, "{folder}");
        }
    }
}
