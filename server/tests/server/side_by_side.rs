//! Tests of what runs side by side on Postgres, and of what waits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use diode_api::{Moderation, ModerationAction, ModerationSubject, Purpose, Reason, Receipt, Standing};
use diode_core::Problem;
use diode_core::ids::AccountId;
use diode_server::admin::verify_entries;
use diode_server::store::{self, NewAccount, NewUpload, Now};
use sqlx::{Connection as _, PgConnection};
use tokio::task::JoinSet;

use crate::agent_story::{agent, hardware, leased, take, work};
use crate::postgres;
use crate::samples::{dataset, h200, mm};
use crate::story::upload;
use crate::test_app::TestApp;
use crate::trust::settle;
use crate::visitor::Visitor;

/// Long enough for everything that need not wait.
const PATIENCE: Duration = Duration::from_secs(30);
/// Long enough to show that something waits.
const A_WHILE: Duration = Duration::from_millis(500);

async fn execute(connection: &mut PgConnection, statement: String) {
    sqlx::query(sqlx::AssertSqlSafe(statement)).execute(connection).await.unwrap();
}

#[tokio::test]
async fn results_of_one_hardware_wait_for_those_of_the_same_problem_only() {
    let url = postgres::create("side_by_side").await;
    let store = store::open(&url).await.unwrap();
    let (one, other) = (mm(4096, 4096, 4096), mm(2048, 4096, 4096));
    let of = |problem: &Problem, factor| upload(&dataset(h200(), std::slice::from_ref(problem), factor), &[]);
    store.store_upload(&of(&one, 1.0)).await.unwrap();

    // The locks that an upload of one problem holds until it ends.
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
async fn tables_that_have_grown_are_counted_at_once() {
    let url = postgres::create("grown").await;
    let store = store::open(&url).await.unwrap();
    let mut other = PgConnection::connect(&url).await.unwrap();
    let mut entries = async || -> f32 {
        store.count_grown_tables().await.unwrap();
        let select = "SELECT reltuples FROM pg_class WHERE oid = 'entries'::regclass";
        sqlx::query_scalar(select).fetch_one(&mut other).await.unwrap()
    };
    store.store_upload(&upload(&dataset(h200(), &[mm(64, 64, 64)], 1.0), &[])).await.unwrap();
    assert!(entries().await <= 0.0, "few rows are not worth it");

    let many: Vec<Problem> = (1..=1500).map(|step| mm(step, 4096, 4096)).collect();
    store.store_upload(&upload(&dataset(h200(), &many, 1.0), &[])).await.unwrap();
    settle(&store).await;
    // Postgres counts changes up to a second later.
    let began = Instant::now();
    while entries().await < 1500.0 {
        assert!(began.elapsed() < PATIENCE, "not counted");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
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
    // Each account measures pairs of problems that overlap with the others' pairs. The last account sends
    // wrong times.
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

/// Waits until `number` connections wait for a lock of the database.
async fn waiting(connection: &mut PgConnection, number: i64) {
    let select = "SELECT COUNT(*) FROM pg_stat_activity \
                  WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let began = Instant::now();
    loop {
        let (found,): (i64,) = sqlx::query_as(select).fetch_one(&mut *connection).await.unwrap();
        if found == number {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{found} wait, expected {number}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Locks the row of a problem, so that uploads of the problem stop half-way and wait.
async fn holding(url: &str, problem: &Problem) -> PgConnection {
    let mut holder = PgConnection::connect(url).await.unwrap();
    execute(&mut holder, "BEGIN".to_owned()).await;
    let lock = format!("SELECT id FROM problems WHERE id = '{}' FOR NO KEY UPDATE", problem.id());
    execute(&mut holder, lock).await;
    holder
}

#[tokio::test]
async fn who_waits_for_uploads_to_end_is_not_overtaken_by_others() {
    let url = postgres::create("overtaken").await;
    let store = store::open(&url).await.unwrap();
    let mut watch = PgConnection::connect(&url).await.unwrap();
    let id = AccountId::of(b"ada");
    let ada = NewAccount {
        id: id.clone(),
        name: "ada".parse().unwrap(),
        password: None,
        admin: false,
        terms: None,
    };
    store.create_account(&ada, None, Now::read()).await.unwrap();
    let problems: Vec<Problem> = (1..=6).map(|step| mm(1024 * step, 4096, 4096)).collect();
    let of = |problems: &[Problem], factor| NewUpload {
        account: Some(id.clone()),
        ..upload(&dataset(h200(), problems, factor), &[])
    };
    let first = store.store_upload(&of(&problems, 1.0)).await.unwrap();
    let reason: Reason = "tested".parse().unwrap();
    for (round, subject) in
        [ModerationSubject::Upload(first.id), ModerationSubject::Account(ada.name.clone())]
            .into_iter()
            .enumerate()
    {
        // At every moment, an upload is under way: each ends only after the next has begun.
        let mut holders = Vec::new();
        for problem in &problems[round * 3..round * 3 + 3] {
            holders.push(holding(&url, problem).await);
        }
        let mut sending = JoinSet::new();
        let mut send = |place: usize| {
            let (store, new) = (Arc::clone(&store), of(&problems[round * 3 + place..][..1], 1.1));
            sending.spawn(async move { store.store_upload(&new).await.unwrap() });
        };
        send(0);
        waiting(&mut watch, 1).await;
        let moderation = Moderation {
            action: ModerationAction::Quarantine,
            subject: subject.clone(),
            reason: reason.clone(),
        };
        let moderating = tokio::spawn({
            let store = Arc::clone(&store);
            async move { store.moderate(&moderation, "root", Now::read()).await.unwrap() }
        });
        waiting(&mut watch, 2).await;
        send(1);
        send(2);
        waiting(&mut watch, 4).await;
        execute(&mut holders[0], "COMMIT".to_owned()).await;
        let done = tokio::time::timeout(PATIENCE, moderating).await;
        assert!(done.is_ok(), "later uploads came before the moderation of {subject}");
        assert!(done.unwrap().unwrap().is_some());
        for holder in &mut holders[1..] {
            execute(holder, "COMMIT".to_owned()).await;
        }
        tokio::time::timeout(PATIENCE, sending.join_all()).await.unwrap();
    }
    settle(store.as_ref()).await;
    let verified = verify_entries(store.as_ref()).await.unwrap();
    assert!(verified.differences.is_empty(), "{verified}");
    store.close().await;
    postgres::remove(&url).await;
}

#[tokio::test]
async fn uploads_that_are_to_be_judged_anew_are_marked_in_one_order() {
    let url = postgres::create("marked_in_order").await;
    let store = store::open(&url).await.unwrap();
    let problem = mm(4096, 4096, 4096);
    // Each upload belongs to another account, so that they are compared.
    let of = async |number: u32| {
        let name = format!("contributor-{number}");
        let id = AccountId::of(name.as_bytes());
        let account = NewAccount {
            id: id.clone(),
            name: name.parse().unwrap(),
            password: None,
            admin: false,
            terms: None,
        };
        store.create_account(&account, None, Now::read()).await.unwrap();
        let factor = 1.0 + f64::from(number) / 100.0;
        let new = upload(&dataset(h200(), std::slice::from_ref(&problem), factor), &[]);
        NewUpload { account: Some(id), ..new }
    };
    let mut ids = Vec::new();
    // Adds uploads until the one with the smallest id is not the first of the table.
    while ids.len() < 4 || ids.iter().min() == ids.first() {
        ids.push(store.store_upload(&of(ids.len() as u32).await).await.unwrap().id);
    }
    settle(&store).await;
    let least = ids.iter().min().unwrap().clone();
    let mut holder = PgConnection::connect(&url).await.unwrap();
    execute(&mut holder, "BEGIN".to_owned()).await;
    execute(&mut holder, format!("SELECT id FROM uploads WHERE id = '{least}' FOR UPDATE")).await;
    let another = of(ids.len() as u32).await;
    let mut storing = std::pin::pin!(store.store_upload(&another));
    let mut watch = PgConnection::connect(&url).await.unwrap();
    tokio::select! {
        stored = &mut storing => panic!("it did not wait: {stored:?}"),
        () = waiting(&mut watch, 1) => {}
    }
    // The new upload waits for the smallest id, so it has locked none of the others yet.
    for id in ids.iter().filter(|id| **id != least) {
        execute(&mut watch, format!("SELECT id FROM uploads WHERE id = '{id}' FOR UPDATE NOWAIT")).await;
    }
    execute(&mut holder, "COMMIT".to_owned()).await;
    tokio::time::timeout(PATIENCE, storing).await.unwrap().unwrap();
    store.close().await;
    postgres::remove(&url).await;
}

#[tokio::test]
async fn of_two_that_wait_for_each_other_one_is_begun_anew() {
    let url = postgres::create("deadlock").await;
    let store = store::open(&url).await.unwrap();
    let now = Now::read();
    let one = agent(&store, "one", now).await;
    store.add_work(&hardware().slug, &[work(mm(64, 64, 64), Purpose::More)]).await.unwrap();
    let lease = leased(take(&store, &one, 60.0, now).await);
    let lock = |table: &str, id: &str| format!("SELECT id FROM {table} WHERE id = '{id}' FOR UPDATE");
    let (on_agent, on_lease) = (lock("agents", one.id.as_str()), lock("leases", lease.id.as_str()));

    // A renewal locks the agent before the lease. The other transaction uses the opposite order.
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
