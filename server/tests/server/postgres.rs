//! Postgres databases for tests.

use sqlx::{Connection as _, PgConnection};

fn server() -> String {
    let base = std::env::var("DIODE_TEST_POSTGRES_URL").unwrap_or_else(|_| {
        panic!(
            "DIODE_TEST_POSTGRES_URL is not set: expected the URL of a Postgres server on which this test may \
             create a database, such as postgres://postgres@127.0.0.1:5432; `cargo xtask test` starts one"
        )
    });
    base.trim_end_matches('/').to_owned()
}

async fn run(statement: String) {
    let mut admin = PgConnection::connect(&format!("{}/postgres", server())).await.unwrap();
    sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&mut admin).await.unwrap();
}

/// The URL of a new database. Its name has the test and the process that it is for.
pub(crate) async fn create(name: &str) -> String {
    let name = format!("diode_{name}_{}", std::process::id());
    run(format!("DROP DATABASE IF EXISTS {name}")).await;
    run(format!("CREATE DATABASE {name}")).await;
    format!("{}/{name}", server())
}

/// Breaks all connections and refuses new ones, or admits new connections again.
pub(crate) async fn shut(url: &str, is_shut: bool) {
    let name = url.rsplit('/').next().unwrap();
    run(format!("ALTER DATABASE {name} ALLOW_CONNECTIONS {}", !is_shut)).await;
    if is_shut {
        run(format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")).await;
    }
}

pub(crate) async fn remove(url: &str) {
    let name = url.rsplit('/').next().unwrap();
    run(format!("DROP DATABASE {name} WITH (FORCE)")).await;
}
