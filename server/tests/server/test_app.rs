//! The real router on a new database, and a client for it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use diode_api::{ApiError, Job, Receipt};
use diode_server::accounts::{Anonymous, Lead, Policy, Provider, SignUps};
use diode_server::app::App;
use diode_server::backend::Backend;
use diode_server::blobs::Keys;
use diode_server::limits::Limits;
use diode_server::router::router;
use diode_server::settings::{Data, S3, Snapshots};
use diode_server::store::LogEntry;
use diode_workloads::published::Published;
use serde::de::DeserializeOwned;
use sqlx::Connection as _;
use tempfile::TempDir;
use tokio::sync::watch;
use tower::ServiceExt as _;

use crate::postgres;
use crate::storage::Storage;

/// The address of [`TestApp::public`].
pub(crate) const PUBLIC_URL: &str = "https://diode.example.org";

pub(crate) struct TestApp {
    pub(crate) backend: Backend,
    pub(crate) data: Data,
    pub(crate) policy: Policy,
    pub(crate) folder: TempDir,
    /// The storage of its blobs; `None` if they are in a folder.
    pub(crate) storage: Option<Storage>,
    router: axum::Router,
    stop: watch::Sender<bool>,
}

pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    #[track_caller]
    pub(crate) fn json<T: DeserializeOwned>(&self) -> T {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {} {text}", self.status))
    }

    /// The message of a reply, which must be an error with this status and code.
    #[track_caller]
    pub(crate) fn refusal(&self, status: u16, code: &str) -> String {
        let error: ApiError = self.json();
        assert_eq!((self.status.as_u16(), error.code.as_str()), (status, code), "{}", error.message);
        error.message
    }

    /// The text of a page, which must have this status.
    #[track_caller]
    pub(crate) fn page(&self, status: u16) -> String {
        let text = String::from_utf8_lossy(&self.body).into_owned();
        assert_eq!(self.status.as_u16(), status, "{text}");
        text
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// Nothing needs an account.
fn local() -> Policy {
    Policy {
        sign_ups: SignUps::Open,
        anonymous: Anonymous::All,
        lead: Lead::Unconfirmed,
        public_url: "http://127.0.0.1:8080".to_owned(),
        behind_proxy: false,
        tls: false,
        limits: Limits::default(),
    }
}

impl TestApp {
    /// A server on loopback, where nothing needs an account.
    pub(crate) async fn new() -> Self {
        Self::start(None, u64::MAX, local()).await
    }

    /// A server that keeps at most `max_stored` bytes of uploads.
    pub(crate) async fn with_quota(max_stored: u64) -> Self {
        Self::start(None, max_stored, local()).await
    }

    /// A server that accepts simulated times.
    pub(crate) async fn accepting_simulated() -> Self {
        let app = Self::new().await;
        let backend = Backend { accept_simulated: true, ..app.backend.clone() };
        let served = App::new(backend.clone(), app.policy.clone(), app.stopping());
        Self { backend, router: router(served), ..app }
    }

    /// The same server with a provider by which people may sign in.
    pub(crate) fn with_provider(self, provider: Provider) -> Self {
        let served = App::new(self.backend.clone(), self.policy.clone(), self.stopping())
            .answering_to(self.policy.host().into_iter().collect())
            .with_provider(Some(provider));
        Self { router: router(served), ..self }
    }

    /// The same server with releases of vLLM and SGLang whose files are compared.
    pub(crate) fn comparing(self, releases: Vec<Published>) -> Self {
        let served = App::new(self.backend.clone(), self.policy.clone(), self.stopping()).comparing(releases);
        Self { router: router(served), ..self }
    }

    /// The same server, which keeps each result of the readiness check for `lasts`.
    pub(crate) fn ready_for(self, lasts: Duration) -> Self {
        let served = App::new(self.backend.clone(), self.policy.clone(), self.stopping()).ready_for(lasts);
        Self { router: router(served), ..self }
    }

    /// One server on SQLite, and one on a new Postgres database with this name.
    pub(crate) async fn on_both(name: &str) -> [Self; 2] {
        let postgres = postgres::create(name).await;
        [Self::new().await, Self::start(Some(postgres), u64::MAX, local()).await]
    }

    /// Two servers with their blobs in a folder, and two with their blobs in S3-compatible storage.
    pub(crate) async fn everywhere(name: &str) -> [Self; 4] {
        let [sqlite, postgres] = Self::on_both(name).await;
        let further = postgres::create(&format!("{name}_bucket")).await;
        [sqlite, postgres, Self::in_bucket(None).await, Self::in_bucket(Some(further)).await]
    }

    /// A server with its blobs in its own S3-compatible storage.
    pub(crate) async fn in_bucket(database_url: Option<String>) -> Self {
        Self::start_with(Some(Storage::start().await), database_url, u64::MAX, local()).await
    }

    /// A server behind a proxy, where writing needs an account.
    pub(crate) async fn public(sign_ups: SignUps) -> Self {
        let policy = Policy {
            sign_ups,
            anonymous: Anonymous::None,
            // Tests of other things are about what counts, not about what leads.
            lead: Lead::Unconfirmed,
            public_url: PUBLIC_URL.to_owned(),
            behind_proxy: true,
            tls: false,
            limits: Limits::PUBLIC,
        };
        Self::start(None, u64::MAX, policy).await
    }

    /// Two servers behind a proxy, one for each database. Only uploads need no account.
    pub(crate) async fn taking_uploads(name: &str) -> [Self; 2] {
        let sqlite = Self::public(SignUps::Open).await;
        let policy = Policy { anonymous: Anonymous::Uploads, ..sqlite.policy.clone() };
        let postgres = postgres::create(name).await;
        [
            Self::start(None, u64::MAX, policy.clone()).await,
            Self::start(Some(postgres), u64::MAX, policy).await,
        ]
    }

    /// Two servers behind a proxy, one for each database, with open sign-ups.
    pub(crate) async fn public_on_both(name: &str) -> [Self; 2] {
        let sqlite = Self::public(SignUps::Open).await;
        let policy = sqlite.policy.clone();
        [sqlite, Self::start(Some(postgres::create(name).await), u64::MAX, policy).await]
    }

    /// Two servers behind a proxy, one for each database, where only what is confirmed leads.
    pub(crate) async fn confirming(name: &str) -> [Self; 2] {
        let public = Self::public(SignUps::Open).await;
        let policy = Policy { lead: Lead::Confirmed, limits: Limits::default(), ..public.policy.clone() };
        let postgres = postgres::create(name).await;
        [
            Self::start(None, u64::MAX, policy.clone()).await,
            Self::start(Some(postgres), u64::MAX, policy).await,
        ]
    }

    /// Two servers behind a proxy without limits, for tests that ask very often.
    pub(crate) async fn public_unlimited(name: &str) -> [Self; 2] {
        let public = Self::public(SignUps::Open).await;
        let policy = Policy { limits: Limits::default(), ..public.policy.clone() };
        let postgres = postgres::create(name).await;
        [
            Self::start(None, u64::MAX, policy.clone()).await,
            Self::start(Some(postgres), u64::MAX, policy).await,
        ]
    }

    /// Two servers behind a proxy with these limits. Nothing needs an account.
    pub(crate) async fn limited(name: &str, limits: Limits) -> [Self; 2] {
        let policy = Policy { behind_proxy: true, limits, ..local() };
        let postgres = postgres::create(name).await;
        [
            Self::start(None, u64::MAX, policy.clone()).await,
            Self::start(Some(postgres), u64::MAX, policy).await,
        ]
    }

    /// Another server on the same database and files.
    pub(crate) async fn replica(&self) -> Self {
        self.on(self.data.clone()).await
    }

    /// A server with the same policy on other data.
    pub(crate) async fn on(&self, data: Data) -> Self {
        let backend = Backend::open(&data).await.unwrap();
        let (stop, stopping) = watch::channel(false);
        let app = App::new(backend.clone(), self.policy.clone(), stopping)
            .answering_to(self.policy.host().into_iter().collect());
        let (folder, router) = (tempfile::tempdir().unwrap(), router(app));
        let policy = self.policy.clone();
        Self { backend, data, policy, folder, storage: None, router, stop }
    }

    /// Closes the database. A Postgres database is also removed.
    pub(crate) async fn end(self) {
        self.backend.store.close().await;
        if self.data.database_url.starts_with("postgres") {
            postgres::remove(&self.data.database_url).await;
        }
    }

    async fn start(database_url: Option<String>, max_stored: u64, policy: Policy) -> Self {
        Self::start_with(None, database_url, max_stored, policy).await
    }

    async fn start_with(
        storage: Option<Storage>,
        database_url: Option<String>,
        max_stored: u64,
        policy: Policy,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let blobs = folder.path().join("blobs");
        let sqlite = format!("sqlite:{}", folder.path().join("diode.db").display());
        let s3 = S3 {
            endpoint: None,
            region: "us-east-1".to_owned(),
            path_style: None,
            ca: None,
            allow_http: false,
        };
        let data = Data {
            database_url: database_url.unwrap_or(sqlite),
            blobs,
            s3,
            keys: Keys::default(),
            max_stored_mb: u64::MAX,
            accept_simulated: false,
            // Automatic snapshots are off, because tests of other things count jobs.
            snapshots: Snapshots { automatic: false, max_number: 100, max_mb: u64::MAX },
            config: None,
        };
        let data = match &storage {
            None => data,
            Some(storage) => storage.under("diode", data),
        };
        let backend = Backend { max_stored, ..Backend::open(&data).await.unwrap() };
        let (stop, stopping) = watch::channel(false);
        // No result of a check is kept, because tests of storage ask again at once.
        let app = App::new(backend.clone(), policy.clone(), stopping)
            .answering_to(policy.host().into_iter().collect())
            .ready_for(Duration::ZERO);
        Self { backend, data, policy, folder, storage, router: router(app), stop }
    }

    /// A server with the upload [`super::samples::seven`].
    pub(crate) async fn with_seven() -> Self {
        let app = Self::new().await;
        assert_eq!(app.upload(super::samples::columnar(&super::samples::seven())).await.status, 201);
        app
    }

    /// The folder of the server's blobs.
    pub(crate) fn blobs(&self) -> &Path {
        assert!(self.storage.is_none(), "the blobs are in a bucket");
        &self.data.blobs
    }

    /// Runs `diode-server admin` on its data. Returns the exit code, stdout and stderr.
    pub(crate) fn admin(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_diode-server"))
            .arg("admin")
            .args(arguments)
            .args(["--database-url", &self.data.database_url])
            .arg("--blobs")
            .arg(self.blobs())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Reply {
        self.sending(request).await
    }

    /// Sends a request. The result is a future that another task can run.
    pub(crate) fn sending(&self, mut request: Request<Body>) -> impl Future<Output = Reply> + Send + use<> {
        request.headers_mut().entry(header::HOST).or_insert(HeaderValue::from_static("localhost"));
        let answering = self.router.clone().oneshot(request);
        async move {
            let (parts, body) = answering.await.unwrap().into_parts();
            let body = to_bytes(body, usize::MAX).await.unwrap().to_vec();
            Reply { status: parts.status, headers: parts.headers, body }
        }
    }

    /// Runs a statement on the database behind the server's back.
    pub(crate) async fn execute(&self, statement: &str) {
        let (url, statement) = (&self.data.database_url, sqlx::AssertSqlSafe(statement.to_owned()));
        if url.starts_with("postgres") {
            let mut raw = sqlx::PgConnection::connect(url).await.unwrap();
            sqlx::query(statement).execute(&mut raw).await.unwrap();
        } else {
            let mut raw = sqlx::SqliteConnection::connect(url).await.unwrap();
            sqlx::query(statement).execute(&mut raw).await.unwrap();
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.get_with(path, &[]).await
    }

    pub(crate) async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.send(Request::delete(path).body(Body::empty()).unwrap()).await
    }

    /// The answer of a path, which must be a success.
    pub(crate) async fn fetch<T: DeserializeOwned>(&self, path: &str) -> T {
        let reply = self.get(path).await;
        assert_eq!(reply.status, 200, "{path}: {}", String::from_utf8_lossy(&reply.body));
        reply.json()
    }

    /// What administrators did, newest first.
    pub(crate) async fn log(&self) -> Vec<LogEntry> {
        self.backend.store.moderation_log(100).await.unwrap()
    }

    pub(crate) async fn upload(&self, bytes: Vec<u8>) -> Reply {
        self.send_bytes("/api/v1/uploads", bytes).await
    }

    pub(crate) async fn send_bytes(&self, path: &str, bytes: Vec<u8>) -> Reply {
        self.send(Request::post(path).body(Body::from(bytes)).unwrap()).await
    }

    pub(crate) async fn receipt(&self, bytes: Vec<u8>) -> Receipt {
        self.upload(bytes).await.json()
    }

    pub(crate) async fn ask(&self, request: &str) -> Reply {
        self.send(Request::post("/api/v1/jobs").body(Body::from(request.to_owned())).unwrap()).await
    }

    pub(crate) async fn train_h200(&self) -> Job {
        let reply = self.ask(r#"{"kind":"train","heuristic":"matmul","hardware":"nvidia-h200"}"#).await;
        assert_eq!(reply.status, 202);
        reply.json()
    }
}
