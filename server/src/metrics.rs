//! Figures for operators, in the text format of Prometheus. They have their own listener, which is off by
//! default, because strangers should not see them.

mod scrape;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use diode_api::Receipt;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

pub use crate::metrics::scrape::router;
pub(crate) use crate::metrics::scrape::{listening, tell};

/// In seconds: from a page of a board to a large export or upload.
const DURATIONS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    /// The template, such as `/api/v1/uploads/{id}`. The paths themselves would make too many labels.
    route: String,
    status: u16,
}

/// In seconds: from a small training to a training that takes all night.
const JOB_DURATIONS: [f64; 10] = [1.0, 5.0, 15.0, 60.0, 180.0, 600.0, 1800.0, 3600.0, 10_800.0, 36_000.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UploadLabels {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct JobLabels {
    outcome: &'static str,
}

/// The counters of this process.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    requests: Family<RequestLabels, Histogram, fn() -> Histogram>,
    uploads: Family<UploadLabels, Counter>,
    upload_bytes: Counter,
    timings: Counter,
    jobs: Family<JobLabels, Histogram, fn() -> Histogram>,
    working: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("diode");
        let histogram: fn() -> Histogram = || Histogram::new(DURATIONS);
        let requests = Family::new_with_constructor(histogram);
        let (uploads, upload_bytes, timings) = (Family::default(), Counter::default(), Counter::default());
        let help = "Time until a request was answered, by route and status";
        registry.register_with_unit("http_request_duration", help, Unit::Seconds, requests.clone());
        registry.register("uploads", "Uploads and agents' results, by outcome", uploads.clone());
        registry.register("uploaded_bytes", "Bytes of uploads that were stored", upload_bytes.clone());
        registry.register("uploaded_timings", "Timings of uploads that were stored", timings.clone());
        let histogram: fn() -> Histogram = || Histogram::new(JOB_DURATIONS);
        let (jobs, working) = (Family::new_with_constructor(histogram), Gauge::default());
        let help = "Time that this process has worked on a job, by outcome";
        registry.register_with_unit("worker_job_duration", help, Unit::Seconds, jobs.clone());
        registry.register("worker_busy", "Whether this process works on a job", working.clone());
        Self { registry: Arc::new(registry), requests, uploads, upload_bytes, timings, jobs, working }
    }
}

impl Metrics {
    fn registry(&self) -> &Registry {
        &self.registry
    }

    fn request(&self, method: &'static str, route: &str, status: u16, took: Duration) {
        let labels = RequestLabels { method, route: route.to_owned(), status };
        self.requests.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// Counts an upload that was accepted.
    pub(crate) fn upload(&self, receipt: &Receipt) {
        let outcome = if receipt.already_stored { "known" } else { "stored" };
        self.uploads.get_or_create(&UploadLabels { outcome }).inc();
        if !receipt.already_stored {
            self.upload_bytes.inc_by(receipt.bytes);
            self.timings.inc_by(receipt.hardware.iter().map(|hardware| hardware.timings).sum());
        }
    }

    /// Counts a job that a worker of this process begins.
    pub(crate) fn job_begins(&self) {
        self.working.inc();
    }

    /// Counts a job that ended, by its outcome.
    pub(crate) fn job_ends(&self, outcome: &'static str, took: Duration) {
        self.working.dec();
        self.jobs.get_or_create(&JobLabels { outcome }).observe(took.as_secs_f64());
    }

    /// Counts an upload that was refused for its content.
    pub(crate) fn upload_refused(&self) {
        self.uploads.get_or_create(&UploadLabels { outcome: "refused" }).inc();
    }
}

/// The label for files of the dashboard and for paths without a route.
const NO_ROUTE: &str = "other";

/// Counts each request, and the time until its answer begins.
pub(crate) async fn measured(State(metrics): State<Metrics>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = known(request.method());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let route = route.as_ref().map_or(NO_ROUTE, MatchedPath::as_str);
    metrics.request(method, route, response.status().as_u16(), began.elapsed());
    response
}

/// The label of a method. Clients may make up methods, which would make too many labels.
fn known(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        _ => "other",
    }
}
