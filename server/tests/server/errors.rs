use axum::body::Body;
use axum::http::Request;
use diode_server::accounts::SignUps;

use crate::samples::{columnar, dataset, h200, mm};
use crate::test_app::TestApp;

#[tokio::test]
async fn unknown_paths_and_methods_get_the_same_body() {
    let app = TestApp::new().await;
    for path in ["/api", "/api/v1/nothing", "/api/v2/hardware"] {
        let message = app.get(path).await.refusal(404, "not_found");
        assert!(message.contains("openapi.json"), "{message}");
    }
    let request = Request::delete("/api/v1/hardware").body(Body::empty()).unwrap();
    let wrong = app.send(request).await;
    assert_eq!(wrong.header("allow"), "GET,HEAD");
    wrong.refusal(405, "method_not_allowed");
    app.get("/api/v1/hardware?x=1").await.refusal(400, "invalid");
}

#[tokio::test]
async fn what_was_sent_comes_back_only_in_part() {
    let app = TestApp::new().await;
    let long = "a".repeat(5000);
    for path in
        [format!("/api/v1/hardware?{long}=1"), format!("/api/v1/hardware/{long}"), format!("/api/{long}")]
    {
        let reply = app.get(&path).await;
        assert!((400..500).contains(&reply.status.as_u16()) && reply.body.len() < 2000, "{path:.40}");
    }
}

#[tokio::test]
async fn health_is_told_and_every_reply_is_guarded() {
    let app = TestApp::new().await;
    for path in ["/healthz", "/readyz"] {
        let reply = app.get(path).await;
        assert_eq!((reply.status.as_u16(), reply.body.as_slice()), (200, b"ok\n".as_slice()));
        assert!(reply.header("content-security-policy").contains("'wasm-unsafe-eval'"));
        assert_eq!(reply.header("x-content-type-options"), "nosniff");
        assert!(!reply.header("x-request-id").is_empty());
    }
}

#[tokio::test]
async fn programs_that_are_too_old_are_told_which_are_not() {
    let app = TestApp::new().await;
    let own = env!("CARGO_PKG_VERSION");
    for path in ["/api/v1/hardware", "/api/v1/nowhere"] {
        let old = app.get_with(path, &[("user-agent", "diode/0.0.9")]).await;
        assert_eq!(old.header("diode-server"), own);
        let message = old.refusal(426, "program_too_old");
        assert!(message.contains("got 0.0.9, expected 0.1.0 or newer"), "{message}");
    }
    for user_agent in ["diode/0.1.0", "diode/99.0.0", "diode/x", "curl/8.0.1", ""] {
        let reply = app.get_with("/api/v1/hardware", &[("user-agent", user_agent)]).await;
        assert_eq!((reply.status.as_u16(), reply.header("diode-server")), (200, own), "{user_agent}");
    }
}

#[tokio::test]
async fn browsers_are_held_to_tls_where_the_server_is_reached_by_it() {
    let app = TestApp::public(SignUps::Open).await;
    for path in ["/", "/healthz", "/api/v1/hardware", "/api/v1/nowhere", "/sign-in"] {
        let reply = app.get_with(path, &[("host", "diode.example.org")]).await;
        assert_eq!(reply.header("strict-transport-security"), "max-age=31536000", "{path}");
    }
    let app = TestApp::new().await;
    assert_eq!(app.get("/sign-in").await.header("strict-transport-security"), "");
}

#[tokio::test]
async fn a_lost_database_is_503_but_the_process_is_alive() {
    let app = TestApp::new().await;
    app.backend.store.close().await;
    let message = app.get("/readyz").await.refusal(503, "unavailable");
    assert!(message.contains("try again"), "{message}");
    app.get("/api/v1/hardware").await.refusal(503, "unavailable");
    assert_eq!(app.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_mistake_of_ours_is_500_and_names_the_request() {
    let app = TestApp::with_seven().await;
    let options = app.data.database_url.parse::<sqlx::sqlite::SqliteConnectOptions>().unwrap();
    let raw = sqlx::SqlitePool::connect_with(options).await.unwrap();
    sqlx::query("UPDATE entries SET entry = 'damaged'").execute(&raw).await.unwrap();
    let reply = app.get("/api/v1/hardware/nvidia-h200/leaderboard").await;
    let message = reply.refusal(500, "internal");
    assert!(message.contains(reply.header("x-request-id")), "{message}");
    assert!(!message.contains("damaged"), "{message}");
}

#[tokio::test]
async fn replies_of_the_api_are_compressed_on_request() {
    let app = TestApp::with_seven().await;
    let path = "/api/v1/hardware/nvidia-h200/leaderboard";
    assert_eq!(app.get(path).await.header("content-encoding"), "");
    assert_eq!(app.get_with(path, &[("accept-encoding", "br")]).await.header("content-encoding"), "br");
    assert_eq!(app.get_with(path, &[("accept-encoding", "gzip")]).await.header("content-encoding"), "gzip");
}

#[tokio::test]
async fn what_was_moved_away_is_not_made_anew() {
    let app = TestApp::with_seven().await;
    let more = columnar(&dataset(h200(), &[mm(64, 512, 512)], 1.0));
    let (blobs, away) = (app.blobs(), app.folder.path().join("away"));
    std::fs::rename(blobs, &away).unwrap();
    for _ in 0..2 {
        app.upload(more.clone()).await.refusal(503, "unavailable");
        app.get("/readyz").await.refusal(503, "unavailable");
        assert!(!blobs.exists());
    }
    std::fs::create_dir(blobs).unwrap();
    app.upload(more.clone()).await.refusal(503, "unavailable");
    std::fs::remove_dir(blobs).unwrap();
    std::fs::rename(&away, blobs).unwrap();
    assert_eq!(app.get("/readyz").await.status, 200);
    assert_eq!(app.upload(more).await.status, 201);

    let more = columnar(&dataset(h200(), &[mm(128, 512, 512)], 1.0));
    let database = app.folder.path().join("diode.db");
    std::fs::rename(&database, &away).unwrap();
    app.upload(more.clone()).await.refusal(503, "unavailable");
    app.get("/readyz").await.refusal(503, "unavailable");
    app.get("/api/v1/hardware").await.refusal(503, "unavailable");
    assert!(!database.exists());
    std::fs::rename(&away, &database).unwrap();
    assert_eq!(app.get("/readyz").await.status, 200);
    assert_eq!(app.upload(more).await.status, 201);
}
