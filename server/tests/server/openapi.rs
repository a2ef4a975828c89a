use crate::test_app::TestApp;

#[tokio::test]
async fn the_description_is_what_it_was() {
    let app = TestApp::new().await;
    let description: serde_json::Value = app.fetch("/api/v1/openapi.json").await;
    // Without this, the order of maps would depend on what else is built with the server.
    insta::with_settings!({ sort_maps => true }, { insta::assert_json_snapshot!(description) });
}

#[tokio::test]
async fn everything_that_is_referred_to_is_described() {
    let app = TestApp::new().await;
    let description: serde_json::Value = app.fetch("/api/v1/openapi.json").await;
    let text = description.to_string();
    let names: Vec<&str> =
        text.split("#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(names.len() > 50);
    for name in names {
        assert!(description["components"]["schemas"][name].is_object(), "{name}");
    }
}
