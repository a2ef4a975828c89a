use diode_formats::{Format, content_digest, decode};

use crate::samples::{collected, columnar, seven};
use crate::test_app::TestApp;

#[tokio::test]
async fn datasets_give_back_what_was_uploaded() {
    let app = TestApp::with_seven().await;
    let digest = content_digest(&[seven()]);
    for (extension, format) in [
        ("json", Format::PredecessorJson),
        ("msgpack", Format::PredecessorMsgpack),
        ("msgpack.zst", Format::Columnar),
    ] {
        let path = format!("/api/v1/datasets/nvidia-h200.{extension}");
        let reply = app.get(&path).await;
        assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
        let decoded = decode(&reply.body).unwrap();
        assert_eq!((decoded.format, content_digest(&decoded.datasets)), (format, digest.clone()));
        assert!(reply.header("content-disposition").contains(&format!("nvidia-h200.{extension}")));
        let again = app.get_with(&path, &[("if-none-match", reply.header("etag"))]).await;
        assert_eq!((again.status.as_u16(), again.body.len()), (304, 0));
    }
}

#[tokio::test]
async fn a_format_that_would_lose_something_is_refused() {
    let app = TestApp::new().await;
    app.receipt(columnar(&collected())).await;
    let message = app.get("/api/v1/datasets/nvidia-h200.json").await.refusal(422, "refused");
    assert!(message.contains(".msgpack.zst"), "{message}");
    assert_eq!(app.get("/api/v1/datasets/nvidia-h200.msgpack.zst").await.status, 200);
}

#[tokio::test]
async fn unknown_datasets_are_not_found() {
    let app = TestApp::with_seven().await;
    for file in ["nvidia-z1.json", "nvidia-h200.xml", "nvidia-h200"] {
        app.get(&format!("/api/v1/datasets/{file}")).await.refusal(404, "not_found");
    }
}
