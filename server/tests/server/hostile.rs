//! Tests of requests from other sites, forgers and broken programs.

use axum::body::Body;
use axum::http::Request;
use diode_api::{Job, LeaderboardRow, LeaderboardSort, Page};
use diode_core::{DType, Op, TimeColumn};

use crate::samples::{columnar, dataset, h200, json, problem, seven};
use crate::test_app::TestApp;

/// A dataset of a type without a peak on this hardware, so that only what no device can do bounds its times.
fn unbounded(millis: f64) -> Vec<u8> {
    let mut data = dataset(h200(), &[problem(Op::Mm, 1 << 16, 1 << 16, 1 << 16, DType::BFloat16)], 1.0);
    let solution = &mut data.solutions[0];
    solution.problem = problem(Op::Mm, 1 << 16, 1 << 16, 1 << 16, DType::Int32);
    solution.times = TimeColumn::from_millis(vec![millis; solution.configs.len()]).unwrap();
    columnar(&data)
}

#[tokio::test]
async fn one_file_breaks_no_board() {
    for app in TestApp::on_both("one_file").await {
        app.receipt(columnar(&seven())).await;
        let message = app.upload(unbounded(1e-310)).await.refusal(422, "refused");
        assert!(message.contains("at least 1 ns"), "{message}");
        let message = app.upload(unbounded(28.1)).await.refusal(422, "refused");
        assert!(message.contains("no device does 20 PFLOP/s"), "{message}");
        assert_eq!(app.upload(unbounded(28.2)).await.status, 201);
        for sort in LeaderboardSort::ALL {
            for order in ["asc", "desc"] {
                let (mut seen, mut cursor) = (0, String::new());
                loop {
                    let path = format!(
                        "/api/v1/hardware/nvidia-h200/leaderboard?sort={sort}&order={order}&limit=1{cursor}"
                    );
                    let page: Page<LeaderboardRow> = app.fetch(&path).await;
                    for row in &page.items {
                        let bounded = row.problem.a_dtype != DType::Int32;
                        assert_eq!(row.tflops.is_some(), bounded, "{row:?}");
                        assert!(row.tflops.is_none_or(|rate| rate < 990.0), "{row:?}");
                    }
                    seen += page.items.len();
                    let Some(next) = page.next_cursor else { break };
                    cursor = format!("&cursor={next}");
                }
                assert_eq!(seen, 8, "{sort} {order}");
            }
        }
        app.end().await;
    }
}

#[tokio::test]
async fn names_that_deceive_are_refused() {
    for app in TestApp::on_both("names").await {
        for name in ["NVIDIA Z\u{0}1", "NVIDIA \u{202e}1Z", "NVIDIA <script>alert(1)</script>"] {
            // torch-diode's files have the hardware's name as a key.
            let quoted = serde_json::to_string(name).unwrap();
            let seven = String::from_utf8(json(&seven())).unwrap();
            let bytes = seven.replace("\"NVIDIA H200\"", &quoted).into_bytes();
            let message = app.upload(bytes).await.refusal(400, "invalid");
            assert!(message.contains("the character U+"), "{message}");
        }
        app.end().await;
    }
}

#[tokio::test]
async fn other_sites_can_change_nothing() {
    let app = TestApp::with_seven().await;
    let ask = r#"{"kind":"train","heuristic":"matmul","hardware":"nvidia-h200"}"#;
    let post = |path: &str, headers: &[(&str, &str)]| {
        let mut request = Request::post(path.to_owned());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::from(ask)).unwrap()
    };
    let host = ("host", "127.0.0.1:8080");
    for path in ["/api/v1/uploads", "/api/v1/jobs"] {
        for headers in [
            &[host, ("origin", "http://evil.example")][..],
            &[host, ("origin", "null")],
            &[host, ("sec-fetch-site", "cross-site")],
        ] {
            app.send(post(path, headers)).await.refusal(403, "forbidden");
        }
        app.send(post(path, &[("host", "evil.example")])).await.refusal(421, "misdirected");
        for media in ["text/plain", "application/x-www-form-urlencoded"] {
            app.send(post(path, &[host, ("content-type", media)]))
                .await
                .refusal(415, "unsupported_media_type");
        }
    }
    app.get_with("/api/v1/hardware", &[("host", "evil.example")]).await.refusal(421, "misdirected");
    assert_eq!(app.fetch::<Vec<Job>>("/api/v1/jobs").await, []);
    let own = [host, ("origin", "http://127.0.0.1:8080"), ("content-type", "application/json")];
    assert_eq!(app.send(post("/api/v1/jobs", &own)).await.status, 202);
}

#[tokio::test]
async fn broken_requests_get_the_usual_body() {
    let app = TestApp::with_seven().await;
    for path in
        ["/api/v1/datasets/%ff.json", "/api/v1/tables/%ff.json", "/api/v1/hardware/%ff", "/api/v1/models/%ff"]
    {
        app.get(path).await.refusal(400, "invalid");
    }
    let broken = futures_util::stream::iter([Ok(&b"{\"kind\""[..]), Err(std::io::Error::other("gone"))]);
    let request = Request::post("/api/v1/jobs").body(Body::from_stream(broken)).unwrap();
    let message = app.send(request).await.refusal(400, "invalid");
    assert!(message.contains("broke off"), "{message}");
    let numbers = r#"{"kind":0,"heuristic":0,"hardware":"nvidia-h200"}"#;
    app.ask(numbers).await.refusal(400, "invalid");
}

#[tokio::test]
async fn a_quota_holds_and_can_be_raised() {
    let app = TestApp::with_quota(1).await;
    let message = app.upload(columnar(&seven())).await.refusal(507, "insufficient_storage");
    assert!(message.contains("max_stored_mb"), "{message}");
    assert!(!app.blobs().join("uploads").exists());
}
