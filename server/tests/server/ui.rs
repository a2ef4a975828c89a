use crate::samples::{columnar, dataset, h200, mm};
use crate::test_app::TestApp;

#[tokio::test]
async fn pages_are_served_whether_or_not_the_dashboard_is_built() {
    let app = TestApp::new().await;
    for path in ["/", "/predict?m=1", "/predict/", "/predict/list", "/models", "/compare", "/datasets"] {
        let reply = app.get(path).await;
        assert_eq!(reply.status, 200, "{path}");
        assert!(reply.header("content-type").starts_with("text/html"), "{path}");
        assert_eq!(reply.header("cache-control"), "no-cache", "{path}");
    }
    app.get("/missing.js").await.refusal(404, "not_found");
    for path in ["/no/such/page", "/hardware", "/models/a/b", "/predict/x"] {
        let reply = app.get(path).await;
        assert_eq!(reply.status, 404, "{path}");
        assert!(reply.header("content-type").starts_with("text/html"), "{path} is still the dashboard");
    }
}

#[tokio::test]
async fn a_page_whose_subject_does_not_exist_is_not_found() {
    let app = TestApp::with_seven().await;
    let problem = mm(64, 512, 512).id();
    app.upload(columnar(&dataset(h200(), &[mm(64, 512, 512)], 1.0))).await;
    let there = [
        "/hardware/nvidia-h200".to_owned(),
        "/hardware/nvidia%2Dh200?board=configs".to_owned(),
        "/datasets/nvidia-h200".to_owned(),
        format!("/problems/{problem}?hardware=nvidia-h200"),
    ];
    let missing = [
        "/hardware/nvidia-h300",
        "/hardware/not%20a%20slug",
        "/datasets/nvidia-h300",
        "/problems/0123456789abcdef",
        "/problems/nonsense",
        "/models/0123456789abcdef",
        "/models/nonsense",
    ];
    for path in &there {
        assert_eq!(app.get(path).await.status, 200, "{path}");
    }
    for path in missing {
        let reply = app.get(path).await;
        assert_eq!(reply.status, 404, "{path}");
        assert!(reply.header("content-type").starts_with("text/html"), "{path} is still the dashboard");
        assert_eq!(reply.header("etag"), "", "{path} must not be kept");
    }
    // A page does not fail with the database: it says itself what could not be read.
    app.backend.store.close().await;
    for path in there.iter().map(String::as_str).chain(["/hardware/nvidia-h300"]) {
        assert_eq!(app.get(path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn the_documentation_is_served_whether_or_not_the_book_is_built() {
    let app = TestApp::new().await;
    let reply = app.get("/docs/").await;
    assert_eq!(reply.status, 200);
    assert!(reply.header("content-type").starts_with("text/html"));
    let cached = reply.header("cache-control");
    assert!(["no-cache", "no-store"].contains(&cached), "a book that is built later is shown: {cached}");
    assert_eq!(app.get("/docs").await.header("location"), "/docs/");
}
