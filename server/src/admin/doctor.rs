//! Looks for what goes wrong where servers run, changes nothing, and says what to do.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use diode_api::SERVER_HEADER;
use jiff::Timestamp;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, RootCertStore};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection as _, PgConnection, SqliteConnection};

use crate::blobs::{BlobPlace, Blobs, Trouble};
use crate::metrics::file_limit;
use crate::readiness::SEEN_FROM;
use crate::settings::{Settings, without_password};
use crate::store::databases::LATEST;
use crate::store::sqlite_file;
use crate::tls::{Tls, TlsFiles};

/// The least free space, and the space at which room should be made.
const LEAST_FREE: u64 = 1 << 30;
const LITTLE_FREE: u64 = 10 << 30;

/// The most that clocks may differ: sessions and leases last minutes at least.
const CLOCKS_MS: i64 = 5_000;

/// A certificate should be renewed before so little time is left.
const RENEWED_BEFORE: Duration = Duration::from_secs(14 * 24 * 3600);

/// How many files a process must be able to open: as many as there are connections, and as many again.
const LEAST_FILES: i64 = 1024;

const PATIENCE: Duration = Duration::from_secs(10);

/// An address that is nobody's (RFC 5737), for a header that a client could make up.
const MADE_UP: &str = "192.0.2.1";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Fine,
    Warning,
    Fault,
}

/// What was found about one thing.
#[derive(Debug)]
pub struct Finding {
    verdict: Verdict,
    about: &'static str,
    words: String,
}

impl Finding {
    /// Whether it must be mended.
    pub fn is_fault(&self) -> bool {
        self.verdict == Verdict::Fault
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Fine => "fine",
            Verdict::Warning => "warning",
            Verdict::Fault => "FAULT",
        };
        write!(f, "{verdict:8} {:9} {}", self.about, self.words)
    }
}

/// What is said of a thing: a fact that is fine, a warning or a fault.
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, about: &'static str, verdict: Verdict, words: impl Into<String>) {
        self.0.push(Finding { verdict, about, words: words.into() });
    }

    fn fine(&mut self, about: &'static str, words: impl Into<String>) {
        self.add(about, Verdict::Fine, words);
    }

    fn warn(&mut self, about: &'static str, words: impl Into<String>) {
        self.add(about, Verdict::Warning, words);
    }

    fn fault(&mut self, about: &'static str, words: impl Into<String>) {
        self.add(about, Verdict::Fault, words);
    }
}

/// Examines the settings, the machine and, if there is a public URL, the server that runs there.
pub async fn examine(settings: &Settings) -> Vec<Finding> {
    let mut found = Findings(Vec::new());
    match settings.check() {
        Ok(_) => found.fine("settings", "fit together"),
        Err(error) => found.fault("settings", error.to_string()),
    }
    database(&mut found, &settings.data.database_url).await;
    blobs(&mut found, settings).await;
    match file_limit() {
        Some(most) if most < LEAST_FILES => found.warn(
            "files",
            format!(
                "a process may open {most}, expected {LEAST_FILES} or more: raise `ulimit -n` or LimitNOFILE"
            ),
        ),
        Some(most) => found.fine("files", format!("a process may open {most}")),
        None => {}
    }
    let access = &settings.serving.access;
    if let Some(files) = access.tls() {
        certificate(&mut found, &files, access.public_url.as_deref());
    }
    if access.behind_proxy && !settings.serving.listen.ip().is_loopback() {
        found.warn(
            "proxy",
            format!(
                "the server listens on {}: let a firewall keep all but the proxy from it, since X-Forwarded-For is believed",
                settings.serving.listen
            ),
        );
    }
    if let Some(url) = access.public_url.clone() {
        let behind_proxy = access.behind_proxy;
        let asked = tokio::task::spawn_blocking(move || (ask(&url), url)).await;
        if let Ok((answer, url)) = asked {
            public_url(&mut found, &url, behind_proxy, answer);
        }
    }
    found.0
}

async fn database(found: &mut Findings, url: &str) {
    let about = "database";
    let (version, now) = match sqlite_file(url) {
        Some(file) if !file.exists() => {
            let words = format!("{}: is not there; `diode-server serve` makes it", file.display());
            return found.warn(about, words);
        }
        Some(file) => {
            free(found, "disk", &file);
            (of_sqlite(&file).await, None)
        }
        None => match of_postgres(url).await {
            Ok((version, server, now)) => {
                tools(found, &server);
                (Ok(version), Some(now))
            }
            Err(error) => (Err(error), None),
        },
    };
    match version {
        Err(error) => {
            let words = format!("{} does not answer as one of Diode: {error}", without_password(url));
            found.fault(about, words);
        }
        Ok(version) if version == LATEST => {
            found.fine(about, format!("{} has tables of version {version}", without_password(url)));
        }
        Ok(version) if version < LATEST => found.warn(
            about,
            format!(
                "its tables have version {version}, this program's {}: make a backup, stop all servers and workers, and \
                 start this version, which brings them up to date",
                LATEST
            ),
        ),
        Ok(version) => found.fault(
            about,
            format!(
                "its tables have version {version}, this program's {}: a newer diode-server has used it; install that",
                LATEST
            ),
        ),
    }
    if let Some(theirs) = now {
        clock(found, "the database", theirs);
    }
}

const VERSION: &str = "SELECT MAX(version) FROM _sqlx_migrations";

async fn of_sqlite(file: &Path) -> sqlx::Result<i64> {
    let options = SqliteConnectOptions::new().filename(file).read_only(true);
    let mut connection = SqliteConnection::connect_with(&options).await?;
    let version = sqlx::query_scalar(VERSION).fetch_one(&mut connection).await?;
    connection.close().await?;
    Ok(version)
}

/// The version of the tables, Postgres's own version, and its clock in milliseconds.
async fn of_postgres(url: &str) -> sqlx::Result<(i64, String, i64)> {
    let mut connection = PgConnection::connect(url).await?;
    let server: String = sqlx::query_scalar("SHOW server_version").fetch_one(&mut connection).await?;
    let now = "SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint";
    let now: i64 = sqlx::query_scalar(now).fetch_one(&mut connection).await?;
    let version = sqlx::query_scalar(VERSION).fetch_one(&mut connection).await?;
    connection.close().await?;
    Ok((version, server, now))
}

/// Backups of Postgres need its own programs.
fn tools(found: &mut Findings, server: &str) {
    let major = |text: &str| -> Option<u32> {
        let number =
            text.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()))?;
        number.split('.').next()?.parse().ok()
    };
    let dump = Command::new("pg_dump").arg("--version").output().ok();
    let dump = dump.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    match (dump.as_deref().and_then(major), major(server)) {
        (Some(own), Some(theirs)) if own >= theirs => {
            found.fine("backup", format!("pg_dump {own} saves Postgres {theirs}"))
        }
        (own, theirs) => {
            let number =
                |version: Option<u32>| version.map_or("none".to_owned(), |version| version.to_string());
            found.warn(
                "backup",
                format!(
                    "got pg_dump {}, expected {} or newer: install PostgreSQL's client programs, or `admin backup` fails",
                    number(own),
                    number(theirs)
                ),
            );
        }
    }
}

async fn blobs(found: &mut Findings, settings: &Settings) {
    let about = "blobs";
    let place = match settings.data.place() {
        Ok(place) => place,
        Err(error) => return found.fault(about, error.to_string()),
    };
    if let BlobPlace::Folder(folder) = &place {
        if !folder.exists() {
            return found
                .warn(about, format!("{}: is not there; `diode-server serve` makes it", folder.display()));
        }
        free(found, "disk", folder);
    }
    let probed = async { Blobs::open(&place).await?.probe().await };
    match probed.await {
        Ok(()) => found.fine(about, format!("{place} can be written")),
        Err(error) => {
            let advice = match error.trouble() {
                Trouble::Full => "make room",
                _ => "give this user the right to write there",
            };
            found.fault(about, format!("{error}: {advice}"));
        }
    }
}

/// The space on the disk of a file or folder.
fn free(found: &mut Findings, about: &'static str, path: &Path) {
    let folder: PathBuf = if path.is_dir() { path.into() } else { path.parent().unwrap_or(path).into() };
    let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
    let Ok(disk) = rustix::fs::statvfs(&folder) else { return };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let words = format!("{:.1} GB are free for {}", free as f64 / 1e9, path.display());
    match free {
        free if free < LEAST_FREE => {
            found.fault(about, format!("{words}: uploads will get 507; make room now"))
        }
        free if free < LITTLE_FREE => {
            found.warn(about, format!("{words}: make room, or lower max_stored_mb"))
        }
        _ => found.fine(about, words),
    }
}

fn clock(found: &mut Findings, of: &str, theirs: i64) {
    let apart = (Timestamp::now().as_millisecond() - theirs).abs();
    if apart > CLOCKS_MS {
        let words = format!("differs by {:.0} s from {of}'s: let both follow NTP", apart as f64 / 1e3);
        found.fault("clock", words);
    } else {
        found.fine("clock", format!("agrees with {of}'s"));
    }
}

/// The certificate's files, as a client that trusts public authorities judges them.
fn certificate(found: &mut Findings, files: &TlsFiles, url: Option<&str>) {
    let about = "tls";
    if let Err(error) = Tls::open(files.clone()) {
        return found.fault(about, format!("{error:#}"));
    }
    let name =
        url.and_then(|url| url.strip_prefix("https://")).map(|name| name.split(':').next().unwrap_or(name));
    let Some(name) = name else { return found.fine(about, "the key belongs to the certificate") };
    let judged = |after: Duration| -> Result<(), String> {
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_file_iter(&files.certificate).and_then(Iterator::collect);
        let chain = chain.map_err(|error| error.to_string())?;
        let (own, others) = chain.split_first().ok_or("it has no certificate")?;
        let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.into() };
        let provider = ring::default_provider().into();
        let verifier =
            WebPkiServerVerifier::builder_with_provider(std::sync::Arc::new(roots), provider).build();
        let verifier = verifier.map_err(|error| error.to_string())?;
        let host = ServerName::try_from(name).map_err(|error| error.to_string())?;
        let since = UnixTime::now().as_secs() + after.as_secs();
        let at = UnixTime::since_unix_epoch(Duration::from_secs(since));
        match verifier.verify_server_cert(own, others, &host, &[], at) {
            Ok(_) => Ok(()),
            Err(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => Err(
                "no public authority vouches for it: clients must trust its authority, or its file lacks the chain".into(),
            ),
            Err(error) => Err(error.to_string()),
        }
    };
    match (judged(Duration::ZERO), judged(RENEWED_BEFORE)) {
        (Err(error), _) => found.fault(about, format!("clients refuse the certificate for {name}: {error}")),
        (Ok(()), Err(_)) => found.warn(about, "the certificate ends within 14 days: renew it"),
        (Ok(()), Ok(())) => {
            found.fine(about, format!("the certificate is good for {name} for 14 days at least"))
        }
    }
}

/// How the server at its public URL answers a client that claims another address.
struct Answer {
    status: u16,
    body: String,
    version: Option<String>,
    seen_from: Option<String>,
    date: Option<i64>,
}

fn ask(url: &str) -> Result<Answer, String> {
    let agent =
        ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).http_status_as_error(false).build();
    let request = ureq::Agent::from(agent).get(format!("{url}/healthz")).header("x-forwarded-for", MADE_UP);
    let mut answer = request.call().map_err(|error| error.to_string())?;
    let header =
        |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let date = header("date").and_then(|date| jiff::fmt::rfc2822::parse(&date).ok());
    Ok(Answer {
        status: answer.status().as_u16(),
        version: header(SERVER_HEADER),
        seen_from: header(SEEN_FROM),
        date: date.map(|date| date.timestamp().as_millisecond()),
        body: answer.body_mut().read_to_string().unwrap_or_default(),
    })
}

fn public_url(found: &mut Findings, url: &str, behind_proxy: bool, answer: Result<Answer, String>) {
    let about = "public";
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            let words = format!(
                "{url} cannot be reached from here: {error}; is the server up, does the name lead here, \
                 and is its certificate in force?"
            );
            return found.fault(about, words);
        }
    };
    match (answer.status, answer.version) {
        (421, _) => {
            return found
                .fault(about, format!("{url} does not pass `Host` on: let the proxy do so (see the guide)"));
        }
        (200, Some(version)) if answer.body == "ok\n" => {
            let own = env!("CARGO_PKG_VERSION");
            if version == own {
                found.fine(about, format!("{url} answers with version {version}"));
            } else {
                let words =
                    format!("{url} answers with version {version}, and this is {own}: restart the server");
                found.warn(about, words);
            }
        }
        (status, _) => {
            let words = format!("{url}/healthz: got {status} from something else, expected this server");
            return found.fault(about, words);
        }
    }
    if let Some(date) = answer.date {
        clock(found, "the server at the public URL", date);
    }
    if !behind_proxy {
        return;
    }
    match answer.seen_from.as_deref() {
        Some(MADE_UP) => found.fault(
            "proxy",
            "it passes on what clients write into X-Forwarded-For: let it append the address that it sees",
        ),
        Some(seen) if seen.starts_with("127.") || seen.starts_with("::1") => found.warn(
            "proxy",
            format!(
                "this request counts as {seen}'s: if those of other machines do, too, the proxy sends no X-Forwarded-For, and \
                 all clients share one limit"
            ),
        ),
        Some(seen) => found.fine("proxy", format!("this request counts as {seen}'s")),
        None => found.warn("proxy", "it removes headers of the server: let it pass them on"),
    }
}
