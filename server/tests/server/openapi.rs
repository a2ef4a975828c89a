use crate::test_app::TestApp;

#[tokio::test]
async fn the_description_is_what_it_was() {
    let app = TestApp::new().await;
    let description: serde_json::Value = app.fetch("/api/v1/openapi.json").await;
    // Whether maps keep their order depends on what else is built with the server.
    insta::with_settings!({ sort_maps => true }, { insta::assert_json_snapshot!(description) });
}
