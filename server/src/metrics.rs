//! Figures for operators, in the text format of Prometheus. They have their own listener, which is off by
//! default, because strangers should not see them.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use diode_api::Receipt;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::backend::Backend;
use crate::listen::{Patience, listen};
use crate::store::{Connections, Figures, Now, Store, StoreResult};

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

const MEDIA: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The end of each text that is joined here. Only the end of the last text may stay.
const END: &str = "# EOF\n";

#[derive(Clone)]
struct Source {
    metrics: Metrics,
    store: Arc<Store>,
}

/// A router with only `/metrics`, for its own listener.
pub fn router(backend: &Backend) -> Router {
    let source = Source { metrics: backend.metrics.clone(), store: backend.store.clone() };
    Router::new().route("/metrics", get(scrape)).with_state(source)
}

async fn scrape(State(Source { metrics, store }): State<Source>) -> Response {
    let now = gather(store.as_ref()).await;
    let mut text = String::new();
    let written = encode(&mut text, metrics.registry()).and_then(|()| {
        text.truncate(text.len() - END.len());
        encode(&mut text, &now)
    });
    match written {
        Ok(()) => ([(header::CONTENT_TYPE, MEDIA)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// The figures at this moment.
async fn gather(store: &Store) -> Registry {
    let mut registry = Registry::default();
    register(&mut registry);
    let diode = registry.sub_registry_with_prefix("diode");
    connections(diode, &store.connections());
    let figures = store.figures(Now::read()).await;
    let up = ConstGauge::new(i64::from(figures.is_ok()));
    diode.register("database_up", "Whether the database answers", up);
    if let Err(error) = database(diode, figures) {
        tracing::warn!("figures of the database are missing: {error}");
    }
    registry
}

fn database(registry: &mut Registry, figures: StoreResult<Figures>) -> StoreResult<()> {
    let Figures { jobs, stale_entries, to_judge, uploads, upload_bytes, agents, leases, waiting_work } =
        figures?;
    let gauge = |number: u64| ConstGauge::new(i64::try_from(number).unwrap_or(i64::MAX));
    registry.register("stale_entries", "Board entries that wait to be computed", gauge(stale_entries));
    registry.register("uploads_to_judge", "Uploads that wait to be judged anew", gauge(to_judge));
    registry.register("uploads_there", "Uploads that are stored", gauge(uploads));
    registry.register_with_unit("stored", "Uploaded files", Unit::Bytes, gauge(upload_bytes));
    registry.register("agents", "Agents that asked for something lately", gauge(agents));
    registry.register("leases", "Leases that have not ended", gauge(leases));
    registry.register("waiting_problems", "Problems that no agent measures yet", gauge(waiting_work));
    let by_state = Family::<StateLabels, Gauge>::default();
    for (state, number) in jobs {
        by_state.get_or_create(&StateLabels { state: state.to_string() }).set(number as i64);
    }
    registry.register("jobs", "Jobs, by state", by_state);
    Ok(())
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    state: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolLabels {
    pool: &'static str,
    state: &'static str,
}

fn connections(registry: &mut Registry, pools: &[Connections]) {
    let family = Family::<PoolLabels, Gauge>::default();
    for &Connections { pool, open, idle } in pools {
        for (state, number) in [("idle", idle), ("used", open.saturating_sub(idle))] {
            family.get_or_create(&PoolLabels { pool, state }).set(number.into());
        }
    }
    let help = "Connections to the database; on Postgres, readers and writers share one pool";
    registry.register("database_connections", help, family);
}

/// The unit in which Linux tells programs their processor time, on every machine.
const TICKS_PER_SECOND: f64 = 100.0;

fn register(registry: &mut Registry) {
    let registry = registry.sub_registry_with_prefix("process");
    if let Some(bytes) = resident_bytes() {
        let help = "Memory that the process holds";
        registry.register_with_unit("resident_memory", help, Unit::Bytes, ConstGauge::new(bytes));
    }
    if let Some(seconds) = processor_seconds() {
        registry.register_with_unit("cpu", "Processor time", Unit::Seconds, ConstCounter::new(seconds));
    }
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        registry.register("open_fds", "Open files and connections", ConstGauge::new(files.count() as i64));
    }
    if let Some(files) = file_limit() {
        registry.register("max_fds", "Files and connections that may be open", ConstGauge::new(files));
    }
}

fn resident_bytes() -> Option<i64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<i64>().ok()? * 1024)
}

fn processor_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program stands in brackets, and may contain spaces and brackets. After it, the user and
    // system times are fields 12 and 13.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) / TICKS_PER_SECOND)
}

/// How many files and connections this process may open.
pub(crate) fn file_limit() -> Option<i64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(i64::MAX),
        number => number.parse().ok(),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn linux_tells_all_of_them() {
        assert!(resident_bytes().unwrap() > 1 << 20);
        assert!(processor_seconds().is_some());
        assert!(file_limit().unwrap() > 0);
    }
}

/// Serves the figures on their own listener until `stopping` turns true.
pub(crate) fn tell(
    listener: TcpListener,
    backend: &Backend,
    mut stopping: watch::Receiver<bool>,
) -> JoinHandle<()> {
    let router = router(backend);
    tokio::spawn(async move {
        let stop = async {
            // A dropped sender also means that the process stops.
            let _ = stopping.wait_for(|stop| *stop).await;
        };
        listen(listener, router, Patience::FEW, None, stop).await;
    })
}

/// Opens the listener. Called before anything else is opened, because this may fail.
pub(crate) async fn listening(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address} for metrics"))?;
    tracing::info!("metrics on http://{}/metrics", listener.local_addr()?);
    Ok(listener)
}
