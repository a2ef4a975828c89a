//! Tests that transactions lock several kinds of hardware in the same order, so that they cannot deadlock.

use std::time::Duration;

use axum::http::StatusCode;
use diode_core::hardware::Hardware;
use sqlx::{Connection as _, PgConnection};

use super::{contribute, ready};
use crate::moderation::administrator;
use crate::samples::{columnar, dataset, h200, mm};
use crate::test_app::TestApp;
use crate::visitor::{PASSWORD, Visitor};

async fn lock(db: &mut PgConnection, slug: &str, how: &str) -> Result<String, sqlx::Error> {
    let select = format!("SELECT slug FROM hardware WHERE slug = '{slug}' FOR UPDATE {how}");
    sqlx::query_scalar(sqlx::AssertSqlSafe(select)).fetch_one(db).await
}

#[tokio::test]
async fn deleting_an_account_locks_hardware_of_models_and_uploads_in_one_order() {
    let [_, app] = TestApp::public_on_both("lock_order").await;
    let root = administrator(&app).await;
    let ada = Visitor::signed_up(&app, "ada").await;
    ready(&app, &root).await;
    // In the order of hardware, the model's hardware comes first and the upload's hardware next.
    contribute(&ada, 1).await;
    let later = Hardware { slug: "nvidia-z900".parse().unwrap(), name: "Z900".to_owned(), ..h200() };
    let upload = columnar(&dataset(later, &[mm(64, 512, 512)], 1.0));
    assert_eq!(ada.post_bytes("/api/v1/uploads", upload).await.status, 201);

    let url = &app.data.database_url;
    let (mut one, mut two) =
        (PgConnection::connect(url).await.unwrap(), PgConnection::connect(url).await.unwrap());
    let mut holding = one.begin().await.unwrap();
    lock(&mut holding, "nvidia-h200", "").await.unwrap();
    let deleting = ada.delete_account(PASSWORD, "delete");
    let looking = async {
        let waiting = "SELECT COUNT(*) FROM pg_stat_activity \
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut two).await.unwrap() == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let found = lock(&mut two, "nvidia-z900", "NOWAIT").await;
        holding.rollback().await.unwrap();
        found
    };
    let (reply, found) = tokio::join!(deleting, looking);
    assert_eq!(found.expect("it has locked the later one and waits for the earlier"), "nvidia-z900");
    assert_eq!(reply.status, StatusCode::SEE_OTHER);
    one.close().await.unwrap();
    two.close().await.unwrap();
    app.end().await;
}
