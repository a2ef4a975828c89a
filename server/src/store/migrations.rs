//! The migrations, embedded in the program. They are listed by hand: sqlx's macro for this comes only with
//! its compile-time query checker, which this program does not use.

use sqlx::SqlSafeStr as _;
use sqlx::SqlStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// The number, name and text of a migration.
type Embedded = (i64, &'static str, &'static str);

const SQLITE: &[Embedded] = &[
    (1, "initial", include_str!("../../../migrations/sqlite/0001_initial.sql")),
    (2, "board", include_str!("../../../migrations/sqlite/0002_board.sql")),
    (3, "accounts", include_str!("../../../migrations/sqlite/0003_accounts.sql")),
    (4, "agents", include_str!("../../../migrations/sqlite/0004_agents.sql")),
    (5, "trust", include_str!("../../../migrations/sqlite/0005_trust.sql")),
    (6, "moderation", include_str!("../../../migrations/sqlite/0006_moderation.sql")),
    (7, "triton", include_str!("../../../migrations/sqlite/0007_triton.sql")),
    (8, "packs", include_str!("../../../migrations/sqlite/0008_packs.sql")),
    (9, "publications", include_str!("../../../migrations/sqlite/0009_publications.sql")),
    (10, "snapshots", include_str!("../../../migrations/sqlite/0010_snapshots.sql")),
    (11, "identities", include_str!("../../../migrations/sqlite/0011_identities.sql")),
    (12, "plans", include_str!("../../../migrations/sqlite/0012_plans.sql")),
    (13, "contributed", include_str!("../../../migrations/sqlite/0013_contributed.sql")),
    (14, "consent", include_str!("../../../migrations/sqlite/0014_consent.sql")),
    (15, "email", include_str!("../../../migrations/sqlite/0015_email.sql")),
    (16, "libraries", include_str!("../../../migrations/sqlite/0016_libraries.sql")),
    (17, "model_sizes", include_str!("../../../migrations/sqlite/0017_model_sizes.sql")),
    (18, "mails", include_str!("../../../migrations/sqlite/0018_mails.sql")),
    (19, "merged", include_str!("../../../migrations/sqlite/0019_merged.sql")),
    (20, "drivers", include_str!("../../../migrations/sqlite/0020_drivers.sql")),
    (21, "unseen_models", include_str!("../../../migrations/sqlite/0021_unseen_models.sql")),
];

const POSTGRES: &[Embedded] = &[
    (1, "initial", include_str!("../../../migrations/postgres/0001_initial.sql")),
    (2, "board", include_str!("../../../migrations/postgres/0002_board.sql")),
    (3, "accounts", include_str!("../../../migrations/postgres/0003_accounts.sql")),
    (4, "agents", include_str!("../../../migrations/postgres/0004_agents.sql")),
    (5, "trust", include_str!("../../../migrations/postgres/0005_trust.sql")),
    (6, "moderation", include_str!("../../../migrations/postgres/0006_moderation.sql")),
    (7, "triton", include_str!("../../../migrations/postgres/0007_triton.sql")),
    (8, "packs", include_str!("../../../migrations/postgres/0008_packs.sql")),
    (9, "publications", include_str!("../../../migrations/postgres/0009_publications.sql")),
    (10, "snapshots", include_str!("../../../migrations/postgres/0010_snapshots.sql")),
    (11, "identities", include_str!("../../../migrations/postgres/0011_identities.sql")),
    (12, "plans", include_str!("../../../migrations/postgres/0012_plans.sql")),
    (13, "contributed", include_str!("../../../migrations/postgres/0013_contributed.sql")),
    (14, "consent", include_str!("../../../migrations/postgres/0014_consent.sql")),
    (15, "email", include_str!("../../../migrations/postgres/0015_email.sql")),
    (16, "libraries", include_str!("../../../migrations/postgres/0016_libraries.sql")),
    (17, "model_sizes", include_str!("../../../migrations/postgres/0017_model_sizes.sql")),
    (18, "mails", include_str!("../../../migrations/postgres/0018_mails.sql")),
    (19, "merged", include_str!("../../../migrations/postgres/0019_merged.sql")),
    (20, "drivers", include_str!("../../../migrations/postgres/0020_drivers.sql")),
    (21, "unseen_models", include_str!("../../../migrations/postgres/0021_unseen_models.sql")),
];

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
mod tests;
