//! Tests of the figures for Prometheus.

use axum::body::{Body, to_bytes};
use axum::http::Request;
use diode_server::jobs::worker;
use diode_server::metrics;
use tower::ServiceExt as _;

use crate::samples::{columnar, seven};
use crate::test_app::TestApp;

pub(crate) async fn scrape(app: &TestApp) -> String {
    let request = Request::get("/metrics").body(Body::empty()).unwrap();
    let reply = metrics::router(&app.backend).oneshot(request).await.unwrap();
    assert_eq!(reply.status(), 200);
    let text = to_bytes(reply.into_body(), usize::MAX).await.unwrap();
    String::from_utf8(text.to_vec()).unwrap()
}

#[track_caller]
fn assert_has(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|there| there == *line), "no line `{line}` in\n{text}");
    }
}

#[tokio::test]
async fn requests_uploads_and_queues_are_counted() {
    for app in TestApp::on_both("metrics").await {
        let receipt: diode_api::Receipt = app.receipt(columnar(&seven())).await;
        app.receipt(columnar(&seven())).await;
        app.upload(b"{}".to_vec()).await.refusal(400, "invalid");
        app.train_h200().await;
        app.get(&format!("/api/v1/uploads/{}", receipt.id)).await;
        app.get("/api/v1/uploads/none").await;
        app.get("/nowhere").await;
        let text = scrape(&app).await;
        assert_has(
            &text,
            &[
                r#"diode_http_request_duration_seconds_count{method="POST",route="/api/v1/uploads",status="201"} 1"#,
                r#"diode_http_request_duration_seconds_count{method="GET",route="/api/v1/uploads/{id}",status="404"} 1"#,
                r#"diode_uploads_total{outcome="stored"} 1"#,
                r#"diode_uploads_total{outcome="known"} 1"#,
                r#"diode_uploads_total{outcome="refused"} 1"#,
                "diode_uploaded_timings_total 42",
                r#"diode_jobs{state="queued"} 1"#,
                "diode_uploads_there 1",
                &format!("diode_stored_bytes {}", receipt.bytes),
                "diode_database_up 1",
                "diode_stale_entries 0",
                "diode_leases 0",
            ],
        );
        assert!(text.contains(r#"route="other""#) && text.ends_with("# EOF\n"), "{text}");
        assert!(
            text.matches("# EOF").count() == 1 && text.contains("process_resident_memory_bytes "),
            "{text}"
        );
        assert!(text.contains(r#"diode_database_connections{pool="readers",state="idle"}"#), "{text}");
        assert!(!app.get("/metrics").await.header("content-type").contains("openmetrics"));
        app.backend.store.close().await;
        assert_has(&scrape(&app).await, &["diode_database_up 0"]);
        app.end().await;
    }
}

#[tokio::test]
async fn what_a_worker_does_is_counted() {
    let app = TestApp::with_seven().await;
    assert_has(&scrape(&app).await, &["diode_worker_busy 0"]);
    let job = app.train_h200().await;
    let working = tokio::spawn(worker::run(app.backend.clone(), app.stopping()));
    // The stream ends with the job.
    app.get(&format!("/api/v1/jobs/{}/events", job.id)).await;
    app.stop();
    working.await.unwrap();
    let done = r#"diode_worker_job_duration_seconds_count{outcome="done"} 1"#;
    assert_has(&scrape(&app).await, &["diode_worker_busy 0", done, r#"diode_jobs{state="done"} 1"#]);
}
