use crate::test_app::TestApp;

#[tokio::test]
async fn pages_are_served_whether_or_not_the_dashboard_is_built() {
    let app = TestApp::new().await;
    for path in
        ["/", "/hardware/nvidia-h200", "/predict?m=1", "/predict/", "/models/m1", "/compare", "/datasets/x"]
    {
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
async fn the_documentation_is_served_whether_or_not_the_book_is_built() {
    let app = TestApp::new().await;
    let reply = app.get("/docs/").await;
    assert_eq!(reply.status, 200);
    assert!(reply.header("content-type").starts_with("text/html"));
    assert_eq!(reply.header("cache-control"), "no-cache");
    assert_eq!(app.get("/docs").await.header("location"), "/docs/");
}
