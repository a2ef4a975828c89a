//! Tests of how often an account or an address may do something, on both databases.

use axum::body::Body;
use axum::http::Request;
use diode_server::accounts::SignUps;
use diode_server::limits::Limits;

use crate::samples::{columnar, dataset, h200, mm, seven};
use crate::test_app::{Reply, TestApp};
use crate::tokens::{issue, with_token};
use crate::visitor::Visitor;

const FEW: Limits = Limits { uploads: Some(3), changes: Some(2), exports: Some(2) };

async fn upload(app: &TestApp, address: &str, m: u64) -> Reply {
    let bytes = columnar(&dataset(h200(), &[mm(m, 512, 512)], 1.0));
    let request = Request::post("/api/v1/uploads").header("x-forwarded-for", address);
    app.send(request.body(Body::from(bytes)).unwrap()).await
}

#[tokio::test]
async fn all_servers_on_a_database_count_uploads_together() {
    for app in TestApp::limited("limits_uploads", FEW).await {
        let other = app.replica().await;
        for (server, m, left) in [(&app, 64, "r=2"), (&other, 128, "r=1"), (&app, 192, "r=0")] {
            let reply = upload(server, "203.0.113.7", m).await;
            assert_eq!(reply.status, 201);
            assert_eq!(reply.header("ratelimit-policy"), "\"uploads\";q=3;w=60");
            assert!(reply.header("ratelimit").contains(left), "{}", reply.header("ratelimit"));
        }
        // A server answers its second refusal from memory.
        for server in [&other, &other, &app] {
            let reply = upload(server, "203.0.113.7", 256).await;
            let wait: u32 = reply.header("retry-after").parse().unwrap();
            assert!((1..=60).contains(&wait), "{wait}");
            assert_eq!(reply.header("ratelimit"), format!("\"uploads\";r=0;t={wait}"));
            let message = reply.refusal(429, "too_many");
            assert!(message.contains("more than 3 uploads within a minute"), "{message}");
        }
        assert_eq!(upload(&other, "203.0.113.8", 256).await.status, 201, "others are not concerned");
        other.backend.store.close().await;
        app.end().await;
    }
}

#[tokio::test]
async fn every_other_change_counts_at_any_server_and_reading_does_not() {
    for app in TestApp::limited("limits_changes", FEW).await {
        let other = app.replica().await;
        for server in [&app, &other] {
            server.ask("{}").await.refusal(400, "invalid");
        }
        for server in [&app, &other] {
            server.ask("{}").await.refusal(429, "too_many");
            server.delete("/api/v1/jobs/none").await.refusal(429, "too_many");
        }
        other.backend.store.close().await;
        for _ in 0..5 {
            let reply = app.get("/api/v1/hardware").await;
            assert_eq!((reply.status.as_u16(), reply.header("ratelimit")), (200, ""));
        }
        app.end().await;
    }
}

#[tokio::test]
async fn an_export_counts_at_any_server_unless_the_client_has_it() {
    for app in TestApp::limited("limits_exports", FEW).await {
        let other = app.replica().await;
        assert_eq!(app.upload(columnar(&seven())).await.status, 201);
        let path = "/api/v1/tables/nvidia-h200.json";
        let first = app.get(path).await;
        assert!(first.header("ratelimit").starts_with("\"exports\";r=1;"), "{}", first.header("ratelimit"));
        for _ in 0..3 {
            let kept = app.get_with(path, &[("if-none-match", first.header("etag"))]).await;
            assert_eq!(kept.status, 304);
            // A program that reads a kept file in parts asks many times.
            assert_eq!(app.get_with(path, &[("range", "bytes=0-3")]).await.status, 206);
        }
        assert_eq!(other.get("/api/v1/datasets/nvidia-h200.json").await.status, 200);
        for server in [&app, &other] {
            let refused = server.get(path).await;
            assert!(!refused.header("retry-after").is_empty());
            refused.refusal(429, "too_many");
        }
        other.backend.store.close().await;
        // Comparisons count as exports.
        app.get("/api/v1/comparisons/hardware?a=nvidia-h200&b=nvidia-h200").await.refusal(429, "too_many");
        app.end().await;
    }
}

#[tokio::test]
async fn accounts_are_counted_wherever_they_are_and_wrong_tokens_by_address() {
    let app = TestApp::public(SignUps::Open).await;
    let ada = Visitor::signed_up(&app, "ada").await;
    let token = format!("Bearer {}", issue(&ada, r#"["upload"]"#).await.secret);
    let left = |reply: &Reply| reply.header("ratelimit").split(';').nth(1).unwrap_or_default().to_owned();
    let first = with_token(&app, "POST", "/api/v1/uploads", &token, b"{}".to_vec()).await;
    let second = with_token(&app, "POST", "/api/v1/uploads", &token, b"{}".to_vec()).await;
    assert_eq!((left(&first), left(&second)), ("r=1199".to_owned(), "r=1198".to_owned()));
    for number in 1..=3 {
        let guess = format!("Bearer diode_{number:064x}");
        let reply = with_token(&app, "POST", "/api/v1/uploads", &guess, b"{}".to_vec()).await;
        assert_eq!(left(&reply), format!("r={}", 1200 - number), "a new token each time is no way round");
        reply.refusal(401, "unauthorized");
    }
}

#[tokio::test]
async fn on_this_machine_nothing_is_counted() {
    let app = TestApp::new().await;
    let reply = app.upload(columnar(&seven())).await;
    assert_eq!(
        (reply.status.as_u16(), reply.header("ratelimit"), reply.header("ratelimit-policy")),
        (201, "", "")
    );
}

#[tokio::test]
async fn an_account_has_so_many_tokens() {
    for app in TestApp::public_unlimited("many_tokens").await {
        let ada = Visitor::signed_up(&app, "ada").await;
        let first = issue(&ada, r#"["upload"]"#).await;
        for _ in 1..100 {
            issue(&ada, r#"["upload"]"#).await;
        }
        let ask = r#"{"name":"gpu01","scopes":["upload"]}"#;
        let message = ada.post("/api/v1/tokens", ask).await.refusal(422, "refused");
        assert!(message.contains("100 tokens already; revoke some"), "{message}");
        // Others are not counted, and a revoked one makes room.
        issue(&Visitor::signed_up(&app, "bob").await, r#"["upload"]"#).await;
        assert_eq!(ada.send("DELETE", &format!("/api/v1/tokens/{}", first.token.id), "").await.status, 204);
        issue(&ada, r#"["upload"]"#).await;
        app.end().await;
    }
}

#[tokio::test]
async fn an_address_signs_up_so_often() {
    for app in TestApp::public_on_both("many_accounts").await {
        for number in 0..20 {
            Visitor::signed_up(&app, &format!("ada{number}")).await;
        }
        let message = Visitor::new(&app).sign_up("ada20", None).await.refusal(429, "too_many");
        assert!(message.contains("20 sign-ups within 60 minutes"), "{message}");
        app.end().await;
    }
}
