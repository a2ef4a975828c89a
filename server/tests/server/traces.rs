//! Tests of spans, as a collector of OpenTelemetry receives them.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use base16ct::lower::encode_string as hex;
use diode_server::settings::OtlpEndpoint;
use diode_server::worker;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message as _;
use tokio::net::TcpListener;

use crate::process::Server;
use crate::test_app::TestApp;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// A collector that keeps all it receives.
#[derive(Clone, Default)]
struct Collector {
    got: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
}

impl Collector {
    async fn start() -> (Self, OtlpEndpoint) {
        async fn keep(State(collector): State<Collector>, headers: HeaderMap, body: Bytes) {
            assert_eq!(headers["content-type"], "application/x-protobuf");
            collector.got.lock().unwrap().push(ExportTraceServiceRequest::decode(body).unwrap());
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let collector = Self::default();
        let router = Router::new().route("/v1/traces", post(keep)).with_state(collector.clone());
        tokio::spawn(async { axum::serve(listener, router).await });
        (collector, endpoint)
    }

    fn spans(&self) -> Vec<Span> {
        let got = self.got.lock().unwrap();
        let resources = got.iter().flat_map(|request| &request.resource_spans);
        resources.flat_map(|resource| &resource.scope_spans).flat_map(|scope| scope.spans.clone()).collect()
    }

    #[track_caller]
    fn span(&self, name: &str) -> Span {
        let spans = self.spans();
        let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
        spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("`{name}`: {names:?}")).clone()
    }
}

fn attributes(span: &Span) -> BTreeMap<String, String> {
    let text = |value: &Value| match value {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        other => panic!("{other:?}"),
    };
    let value = |pair: &opentelemetry_proto::tonic::common::v1::KeyValue| {
        text(pair.value.as_ref().unwrap().value.as_ref().unwrap())
    };
    span.attributes.iter().map(|pair| (pair.key.clone(), value(pair))).collect()
}

#[tokio::test]
async fn a_request_is_a_span_with_route_and_id_in_the_trace_of_its_client() {
    let (collector, endpoint) = Collector::start().await;
    let app = TestApp::with_seven().await.with_traces(&endpoint);
    let traceparent = format!("00-{TRACE}-{PARENT}-01");
    let path = "/api/v1/hardware/nvidia-h200/leaderboard?limit=3";
    let reply = app.get_with(path, &[("traceparent", &traceparent)]).await;
    app.get_with("/api/v1/hardware/none", &[("traceparent", "nonsense")]).await;
    app.get("/nowhere").await;
    app.backend.traces.clone().end().await;

    let span = collector.span("GET /api/v1/hardware/{slug}/leaderboard");
    assert_eq!((hex(&span.trace_id), hex(&span.parent_span_id)), (TRACE.to_owned(), PARENT.to_owned()));
    assert_eq!(span.kind(), SpanKind::Server);
    let of = attributes(&span);
    assert_eq!(of["http.route"], "/api/v1/hardware/{slug}/leaderboard");
    assert_eq!(of["http.request.method"], "GET");
    assert_eq!(of["url.path"], "/api/v1/hardware/nvidia-h200/leaderboard");
    assert_eq!(of["http.response.status_code"], "200");
    assert_eq!(of["request_id"], reply.header("x-request-id"));
    let spans = collector.spans();
    assert_eq!(spans.len(), 3);
    let missed = spans.iter().find(|span| attributes(span)["http.response.status_code"] == "404").unwrap();
    assert!(missed.parent_span_id.is_empty() && hex(&missed.trace_id) != TRACE);
    assert!(!format!("{spans:?}").contains("limit"), "a query may hold a secret");
}

#[tokio::test]
async fn a_job_is_a_span_and_a_failure_is_an_error() {
    let (collector, endpoint) = Collector::start().await;
    let app = TestApp::with_seven().await.with_traces(&endpoint);
    let job = app.train_h200().await;
    let working = tokio::spawn(worker::run(app.backend.clone(), app.stopping()));
    // The stream ends with the job.
    app.get(&format!("/api/v1/jobs/{}/events", job.id)).await;
    app.stop();
    working.await.unwrap();
    app.backend.store.close().await;
    assert_eq!(app.get("/api/v1/uploads").await.status, 503);
    app.backend.traces.clone().end().await;

    let span = collector.span("job train");
    let of = attributes(&span);
    assert_eq!((of["job"].as_str(), of["outcome"].as_str()), (job.id.as_str(), "done"));
    assert_eq!((of["kind"].as_str(), of["hardware"].as_str()), ("train", "nvidia-h200"));
    assert!(span.end_time_unix_nano > span.start_time_unix_nano);
    let failed = collector.span("GET /api/v1/uploads");
    assert_eq!(failed.status.unwrap().code(), StatusCode::Error);
}

/// Sends SIGTERM. Returns how long the process then takes to end.
fn terminate(mut server: Server) -> Duration {
    let began = Instant::now();
    let told = Command::new("kill").arg(server.process.id().to_string()).status().unwrap();
    assert!(told.success());
    assert!(server.process.wait().unwrap().success());
    began.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_sent_before_the_process_ends() {
    let (collector, endpoint) = Collector::start().await;
    let folder = tempfile::tempdir().unwrap();
    let mut command = Server::command(folder.path());
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.to_string());
    let server = Server::started(command.spawn().unwrap());
    assert_eq!(server.status("/api/v1/hardware", None), 200);
    terminate(server);
    collector.span("GET /api/v1/hardware");
    let got = collector.got.lock().unwrap();
    let resource = got[0].resource_spans[0].resource.as_ref().unwrap();
    let service = resource.attributes.iter().find(|pair| pair.key == "service.name").unwrap();
    let named = service.value.as_ref().unwrap().value.as_ref().unwrap();
    assert_eq!(named, &Value::StringValue("diode-server".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_or_silent_holds_nothing_up() {
    // The system accepts connections to this port, but nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let away = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for address in [silent.local_addr().unwrap(), away] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Server::command(folder.path());
        command.args(["--otlp-endpoint", &format!("http://{address}")]).env("OTEL_BSP_MAX_QUEUE_SIZE", "64");
        let server = Server::started(command.spawn().unwrap());
        let began = Instant::now();
        let agent = ureq::Agent::new_with_defaults();
        // These are more spans than the queue can take.
        for _ in 0..300 {
            assert_eq!(agent.get(format!("{}/healthz", server.address)).call().unwrap().status(), 200);
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        let took = terminate(server);
        assert!(took < Duration::from_secs(10), "{took:?}");
    }
}
