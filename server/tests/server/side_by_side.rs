//! What goes on beside each other on Postgres, and what waits.

use std::time::Duration;

use diode_core::Problem;
use diode_core::api::{Purpose, Receipt, Standing};
use diode_server::store::{AgentStore as _, Now, PostgresStore, Store as _};
use sqlx::{Connection as _, PgConnection};

use crate::agent_story::{agent, hardware, leased, take, work};
use crate::postgres;
use crate::samples::{dataset, h200, mm};
use crate::story::upload;
use crate::test_app::TestApp;
use crate::trust::settle;
use crate::visitor::Visitor;

/// Long enough for what does not wait.
const PATIENCE: Duration = Duration::from_secs(20);
/// Long enough to tell that something waits.
const A_WHILE: Duration = Duration::from_millis(500);

async fn execute(connection: &mut PgConnection, statement: String) {
    sqlx::query(sqlx::AssertSqlSafe(statement)).execute(connection).await.unwrap();
}

#[tokio::test]
async fn results_of_one_hardware_wait_for_those_of_the_same_problem_only() {
    let url = postgres::create("side_by_side").await;
    let store = PostgresStore::open(&url).await.unwrap();
    let (one, other) = (mm(4096, 4096, 4096), mm(2048, 4096, 4096));
    let of = |problem: &Problem, factor| upload(&dataset(h200(), std::slice::from_ref(problem), factor), &[]);
    store.store_upload(&of(&one, 1.0)).await.unwrap();

    // What an upload of one problem holds until it has ended.
    let mut holder = PgConnection::connect(&url).await.unwrap();
    execute(&mut holder, "BEGIN".to_owned()).await;
    execute(&mut holder, format!("SELECT slug FROM hardware WHERE slug = '{}' FOR KEY SHARE", h200().slug))
        .await;
    execute(&mut holder, format!("SELECT id FROM problems WHERE id = '{}' FOR NO KEY UPDATE", one.id()))
        .await;

    tokio::time::timeout(PATIENCE, store.store_upload(&of(&other, 1.0))).await.unwrap().unwrap();
    let of_the_same = of(&one, 1.1);
    let mut storing = std::pin::pin!(store.store_upload(&of_the_same));
    assert!(tokio::time::timeout(A_WHILE, &mut storing).await.is_err(), "it must wait");
    execute(&mut holder, "COMMIT".to_owned()).await;
    tokio::time::timeout(PATIENCE, storing).await.unwrap().unwrap();
    settle(&store).await;
    store.close().await;
    postgres::remove(&url).await;
}

#[tokio::test]
async fn boards_are_right_whoever_comes_at_once() {
    let [sqlite, app] = TestApp::public_on_both("at_once").await;
    sqlite.end().await;
    let mut visitors = Vec::new();
    for name in ["ada", "bob", "cyd", "dan", "eve"] {
        visitors.push(Visitor::signed_up(&app, name).await);
    }
    let problems: Vec<Problem> = (1..=6).map(|step| mm(1024 * step, 4096, 4096)).collect();
    // Everybody measures pairs of problems that overlap with those of the others; the last lies.
    let sent = visitors.iter().enumerate().flat_map(|(place, visitor)| {
        let factor = if place == 4 { 2.0 } else { 4.0 + place as f64 / 100.0 };
        problems.windows(2).map(move |pair| {
            visitor.post_bytes("/api/v1/uploads", crate::samples::columnar(&dataset(h200(), pair, factor)))
        })
    });
    for reply in futures_util::future::join_all(sent).await {
        assert_eq!(reply.status, 201, "{}", String::from_utf8_lossy(&reply.body));
    }
    settle(app.backend.store.as_ref()).await;
    let fenced: Vec<Receipt> = app.fetch("/api/v1/uploads?standing=fenced").await;
    assert!(fenced.len() == 5 && fenced.iter().all(|lie| lie.standing == Standing::Fenced), "{fenced:?}");
    app.end().await;
}

#[tokio::test]
async fn of_two_that_wait_for_each_other_one_is_begun_anew() {
    let url = postgres::create("deadlock").await;
    let store = PostgresStore::open(&url).await.unwrap();
    let now = Now::read();
    let one = agent(&store, "one", now).await;
    store.add_work(&hardware().slug, &[work(mm(64, 64, 64), Purpose::More)]).await.unwrap();
    let lease = leased(take(&store, &one, 60.0, now).await);
    let lock = |table: &str, id: &str| format!("SELECT id FROM {table} WHERE id = '{id}' FOR UPDATE");
    let (on_agent, on_lease) = (lock("agents", one.id.as_str()), lock("leases", lease.id.as_str()));

    // A renewal locks the agent before the lease; somebody else does it the other way round.
    let mut other = PgConnection::connect(&url).await.unwrap();
    execute(&mut other, "BEGIN".to_owned()).await;
    execute(&mut other, on_lease).await;
    let renewal = store.renew_lease(&one.id, &lease.id, now);
    let against = async {
        tokio::time::sleep(A_WHILE).await;
        execute(&mut other, on_agent).await;
        execute(&mut other, "COMMIT".to_owned()).await;
    };
    let (renewed, ()) =
        tokio::time::timeout(PATIENCE, async { tokio::join!(renewal, against) }).await.unwrap();
    assert!(renewed.unwrap());
    store.close().await;
    postgres::remove(&url).await;
}
