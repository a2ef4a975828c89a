use axum::body::Body;
use axum::http::Request;
use diode_core::api::{HardwareSummary, Receipt};
use diode_core::ids::Digest;

use crate::samples::{collected, columnar, dataset, h200, json, mm, seven};
use crate::test_app::TestApp;

#[tokio::test]
async fn the_same_bytes_again_change_nothing() {
    let app = TestApp::new().await;
    let bytes = columnar(&seven());
    let first = app.upload(bytes.clone()).await;
    assert_eq!(first.status, 201);
    let first: Receipt = first.json();
    assert_eq!(first.digest, Digest::of(&bytes));
    assert_eq!((first.new_solutions, first.duplicate_solutions, first.already_stored), (7, 0, false));
    assert_eq!((first.hardware[0].problems, first.hardware[0].timings), (7, 42));
    assert_eq!(first.format, "columnar");

    let again = app.upload(bytes).await;
    assert_eq!(again.status, 200);
    let again: Receipt = again.json();
    assert_eq!(again, Receipt { already_stored: true, ..first.clone() });
    let kept: Receipt = app.fetch(&format!("/api/v1/uploads/{}", first.id)).await;
    assert_eq!(kept, again);
    assert!(app.settings.blobs.join("uploads").join(first.digest.as_str()).is_file());
}

#[tokio::test]
async fn another_format_of_the_same_data_moves_no_leaderboard() {
    let app = TestApp::new().await;
    let data = seven();
    app.receipt(columnar(&data)).await;
    let before = app.get("/api/v1/hardware/nvidia-h200/leaderboard").await.body;
    let receipt = app.receipt(json(&data)).await;
    assert_eq!(receipt.format, "torch-diode-json");
    assert_eq!((receipt.new_solutions, receipt.duplicate_solutions), (0, 7));
    assert_eq!(app.get("/api/v1/hardware/nvidia-h200/leaderboard").await.body, before);
}

#[tokio::test]
async fn truncated_uploads_are_refused_and_leave_nothing() {
    let app = TestApp::new().await;
    for bytes in [columnar(&seven()), json(&seven())] {
        for keep in [0, 1, bytes.len() / 3, bytes.len() - 1] {
            let message = app.upload(bytes[..keep].to_vec()).await.refusal(400, "invalid");
            assert!(!message.is_empty());
        }
    }
    let hardware: Vec<HardwareSummary> = app.fetch("/api/v1/hardware").await;
    assert_eq!(hardware, []);
    assert!(!app.settings.blobs.join("uploads").exists());
}

#[tokio::test]
async fn impossible_times_are_refused_whole() {
    let app = TestApp::new().await;
    let mut data = seven();
    data.solutions.extend(dataset(h200(), &[mm(8192, 8192, 8192)], 0.5).solutions);
    let message = app.upload(columnar(&data)).await.refusal(422, "refused");
    assert!(message.contains("8192×8192×8192 128×128×64 s3 w4"), "{message}");
    assert!(message.contains("at least"), "{message}");
    let hardware: Vec<HardwareSummary> = app.fetch("/api/v1/hardware").await;
    assert_eq!(hardware, []);
}

#[tokio::test]
async fn identical_uploads_at_the_same_time_both_succeed() {
    let app = TestApp::new().await;
    let bytes = columnar(&seven());
    let (a, b, c) =
        tokio::join!(app.upload(bytes.clone()), app.upload(bytes.clone()), app.upload(bytes.clone()));
    let mut statuses = [a.status.as_u16(), b.status.as_u16(), c.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 201]);
    let hardware: HardwareSummary = app.fetch("/api/v1/hardware/nvidia-h200").await;
    assert_eq!((hardware.problems, hardware.solutions, hardware.timings), (7, 7, 42));
}

#[tokio::test]
async fn methods_are_kept_apart() {
    let app = TestApp::with_seven().await;
    app.receipt(columnar(&collected())).await;
    let hardware: HardwareSummary = app.fetch("/api/v1/hardware/nvidia-h200").await;
    assert_eq!((hardware.problems, hardware.solutions, hardware.methods.len()), (7, 8, 2));
}

#[tokio::test]
async fn too_long_and_wrapped_bodies_are_refused() {
    let app = TestApp::new().await;
    let post = |name: &str, value: &str| {
        Request::post("/api/v1/uploads").header(name, value).body(Body::from("x")).unwrap()
    };
    let message = app.send(post("content-length", "99999999999")).await.refusal(413, "too_large");
    assert!(message.contains("64 MiB"), "{message}");
    let long = axum::body::Bytes::from(vec![b' '; 1 << 20]);
    let endless = futures_util::stream::iter((0..100).map(move |_| Ok::<_, std::io::Error>(long.clone())));
    let request = Request::post("/api/v1/uploads").body(Body::from_stream(endless)).unwrap();
    app.send(request).await.refusal(413, "too_large");
    app.send(post("content-type", "multipart/form-data; boundary=x"))
        .await
        .refusal(415, "unsupported_media_type");
    app.send(post("content-encoding", "gzip")).await.refusal(415, "unsupported_media_type");
}

#[tokio::test]
async fn unknown_receipts_are_not_found() {
    let app = TestApp::new().await;
    for id in ["0123456789abcdef", "nonsense"] {
        let message = app.get(&format!("/api/v1/uploads/{id}")).await.refusal(404, "not_found");
        assert!(message.contains(id), "{message}");
    }
}

#[tokio::test]
async fn slow_senders_keep_nobody_waiting() {
    let app = TestApp::new().await;
    let mut slow = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let silence = futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>();
        let request = Request::post("/api/v1/uploads").body(Body::from_stream(silence)).unwrap();
        slow.spawn(app.sending(request));
    }
    tokio::task::yield_now().await;
    let upload = tokio::time::timeout(std::time::Duration::from_secs(9), app.upload(columnar(&seven())));
    assert_eq!(upload.await.expect("waits for slow senders").status, 201);
}
