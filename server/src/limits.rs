//! How often an account or, without one, an address may do what is expensive for the server.
//!
//! `rated` counts every request that changes something. Exports are counted in their handler, once it is
//! clear that the answer is not 304. Tries are counted in the database, so that all servers on one database
//! count together.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use quick_cache::sync::Cache;

use crate::accounts::{Caller, Identified, Peer};
use crate::app::App;
use crate::http::{ApiFault, ApiResult};
use crate::store::{Now, Tries};

const MINUTE: Duration = Duration::from_secs(60);

/// The most requests per minute; `None` for no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Uploads and results of agents.
    pub uploads: Option<u64>,
    /// All other requests that change something.
    pub changes: Option<u64>,
    /// Comparisons, and the datasets, tables and lists of configs that the client lacks.
    pub exports: Option<u64>,
}

impl Limits {
    /// For a server that others can reach. 1,200 uploads per minute let twenty agents of one account send a
    /// result each second.
    pub const PUBLIC: Self = Self { uploads: Some(1200), changes: Some(1200), exports: Some(120) };

    fn uploads(&self) -> Option<Rate> {
        rate("uploads", self.uploads)
    }

    fn changes(&self) -> Option<Rate> {
        rate("changes", self.changes)
    }

    pub(crate) fn exports(&self) -> Option<Rate> {
        rate("exports", self.exports)
    }
}

fn rate(name: &'static str, quota: Option<u64>) -> Option<Rate> {
    quota.map(|quota| Rate { name, quota, window: MINUTE })
}

/// Counts a try of a subject. Refuses the try if the subject has tried too often.
pub(crate) async fn admit(app: &App, subject: &str, rate: &Rate) -> ApiResult<Left> {
    let now = Now::read();
    if let Some(until) = app.refused.until(subject, now) {
        return Err(refuse(rate, until, now));
    }
    let window = rate.window_millis();
    let Tries { count, since } = app.backend.store.count_attempt(subject, now.millis() - window, now).await?;
    let until = since + window;
    if count > rate.quota {
        app.refused.note(subject, until, now);
        return Err(refuse(rate, until, now));
    }
    Ok(Left { rate: *rate, left: rate.quota - count, reset: seconds(until, now) })
}

fn refuse(rate: &Rate, until: i64, now: Now) -> ApiFault {
    let left = Left { rate: *rate, left: 0, reset: seconds(until, now) };
    let message = format!(
        "more than {} {} within {}; try again in {} s",
        rate.quota,
        rate.name,
        rate.within(),
        left.reset
    );
    ApiFault::tried_too_often(message, left)
}

/// At least one second: a client that comes back at once would be refused again.
fn seconds(until: i64, now: Now) -> u32 {
    u32::try_from((until - now.millis()).max(1)).unwrap_or(u32::MAX).div_ceil(1000)
}

/// The name under which requests are counted: the caller's account or, without a valid session or token, the
/// address. So somebody who guesses tokens is counted by address.
pub(crate) struct Client(pub(crate) String);

impl FromRequestParts<App> for Client {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        // If the caller cannot be identified, a handler that needs the caller reports the error.
        if let Ok(caller) = Caller::identify(parts, app).await {
            let account = caller.as_ref().map(|caller| caller.account.id.to_string());
            parts.extensions.insert(Identified(caller));
            if let Some(account) = account {
                return Ok(Self(account));
            }
        }
        let Peer(address) = Peer::from_request_parts(parts, app).await?;
        Ok(Self(address))
    }
}

/// Counts requests that change something, and comparisons, which read many timings for each answer.
pub(crate) async fn rated(State(app): State<App>, request: Request, next: Next) -> Response {
    let Some(rate) = rate_of(&app.policy().limits, request.method(), request.uri().path()) else {
        return next.run(request).await;
    };
    let (mut parts, body) = request.into_parts();
    let Ok(Client(client)) = Client::from_request_parts(&mut parts, &app).await;
    let left = match admit(&app, &format!("{} of {client}", rate.name), &rate).await {
        Ok(left) => left,
        Err(fault) => return fault.into_response(),
    };
    let mut response = next.run(Request::from_parts(parts, body)).await;
    // The handler's own limit is stricter, so the client learns of that limit.
    if !response.headers().contains_key("ratelimit") {
        left.tell(response.headers_mut());
    }
    response
}

fn rate_of(limits: &Limits, method: &Method, path: &str) -> Option<Rate> {
    if method.is_safe() {
        return path.starts_with("/api/v1/comparisons/").then(|| limits.exports())?;
    }
    let is_result = path.starts_with("/api/v1/agents/") && path.ends_with("/results");
    let is_file = is_result || matches!(path, "/api/v1/uploads" | "/api/v1/models");
    if is_file { limits.uploads() } else { limits.changes() }
}

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STATE: HeaderName = HeaderName::from_static("ratelimit");

/// How often something may be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    /// The name of what is counted, in the plural.
    pub(crate) name: &'static str,
    pub(crate) quota: u64,
    pub(crate) window: Duration,
}

impl Rate {
    fn window_millis(&self) -> i64 {
        self.window.as_millis() as i64
    }

    /// The window in words.
    fn within(&self) -> String {
        match self.window.as_secs() / 60 {
            1 => "a minute".to_owned(),
            minutes => format!("{minutes} minutes"),
        }
    }
}

/// How much of a rate is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Left {
    rate: Rate,
    left: u64,
    /// Seconds until the window ends.
    reset: u32,
}

impl Left {
    pub(crate) fn reset(&self) -> u32 {
        self.reset
    }

    /// Adds the limit and what is left to the headers, after the IETF's
    /// draft-ietf-httpapi-ratelimit-headers-10.
    pub(crate) fn tell(&self, headers: &mut HeaderMap) {
        let Self { rate: Rate { name, quota, window }, left, reset } = self;
        let fields = [
            (POLICY, format!("\"{name}\";q={quota};w={}", window.as_secs())),
            (STATE, format!("\"{name}\";r={left};t={reset}")),
        ];
        for (field, value) in fields {
            // Names and numbers are always a valid header.
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(field, value);
            }
        }
    }
}

/// How many refused subjects are remembered. There are more only if many clients attack together. Then the
/// database is asked again for some of them.
const REMEMBERED: usize = 10_000;

/// The subjects that were refused, and until when, by a clock that nobody sets. So a flood of requests that would be
/// refused does not reach the database.
#[derive(Clone)]
pub(crate) struct Refused(Arc<Cache<String, Instant>>);

impl Default for Refused {
    fn default() -> Self {
        Self(Arc::new(Cache::new(REMEMBERED)))
    }
}

impl Refused {
    /// When the window of a refused subject ends, in milliseconds since 1970; `None` if the subject may try.
    fn until(&self, subject: &str, now: Now) -> Option<i64> {
        let left = self.0.get(subject)?.checked_duration_since(Instant::now())?;
        Some(now.lease_end(left))
    }

    fn note(&self, subject: &str, until: i64, now: Now) {
        let left = Duration::from_millis(u64::try_from(until - now.millis()).unwrap_or(0));
        self.0.insert(subject.to_owned(), Instant::now() + left);
    }
}

#[cfg(test)]
mod layer_tests {
    use super::*;

    #[test]
    fn uploads_and_other_changes_are_told_apart() {
        let of = |method, path| rate_of(&Limits::PUBLIC, &method, path).map(|rate| rate.name);
        assert_eq!(of(Method::POST, "/api/v1/uploads"), Some("uploads"));
        assert_eq!(of(Method::POST, "/api/v1/models"), Some("uploads"));
        assert_eq!(of(Method::POST, "/api/v1/agents/a/leases/b/results"), Some("uploads"));
        assert_eq!(of(Method::POST, "/api/v1/agents/a/leases"), Some("changes"));
        assert_eq!(of(Method::POST, "/sign-in"), Some("changes"));
        assert_eq!(of(Method::DELETE, "/api/v1/jobs/a"), Some("changes"));
        assert_eq!(of(Method::GET, "/api/v1/uploads"), None);
        assert_eq!(of(Method::GET, "/api/v1/comparisons/uploads"), Some("exports"));
        assert_eq!(rate_of(&Limits::default(), &Method::POST, "/api/v1/uploads"), None);
    }
}

#[cfg(test)]
mod rate_tests {
    use super::*;

    #[test]
    fn the_fields_are_those_of_the_draft() {
        let rate = Rate { name: "uploads", quota: 100, window: Duration::from_secs(60) };
        let mut headers = HeaderMap::new();
        Left { rate, left: 7, reset: 42 }.tell(&mut headers);
        assert_eq!(headers["RateLimit-Policy"], "\"uploads\";q=100;w=60");
        assert_eq!(headers["RateLimit"], "\"uploads\";r=7;t=42");
    }
}

#[cfg(test)]
mod refused_tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_was_refused_may_try_again_when_the_window_ends() {
        let (refused, now) = (Refused::default(), Now::read());
        let window = Duration::from_secs(1);
        refused.note("ada", now.lease_end(window), now);
        // However the clock is set meanwhile.
        for days in [-24, 0, 24] {
            let then = Now(now.0 + jiff::Span::new().hours(days));
            let left = refused.until("ada", then).unwrap() - then.millis();
            assert!((0..=1000).contains(&left), "{left}");
        }
        assert_eq!(refused.until("bob", now), None);
        std::thread::sleep(window);
        assert_eq!(refused.until("ada", now), None);
    }
}

#[cfg(test)]
mod table_tests {
    use diode_api::{MAX_UPLOAD_BYTES, MAX_UPLOAD_TIMINGS};

    use super::*;
    use crate::accounts::secrets::MAX_TOKENS;
    use crate::accounts::sessions::{
        CODES_OF_ACCOUNT, DEVICES_OF_ADDRESS, REPORTS, SIGN_IN, SIGN_INS_OF_ADDRESS, SIGN_UPS_OF_ADDRESS,
    };
    use crate::app::{FOLLOWING_AT_ONCE, RECEIVING_AT_ONCE};
    use crate::listen::Patience;
    use crate::store::{MAX_OWN_JOBS, MAX_WAITING_JOBS, MAX_WAITING_MODELS};
    use crate::uploads::ingest::AT_ONCE;

    const GUIDE: &str = include_str!("../../docs/guides/operating.md");

    /// With a comma after each three digits.
    fn grouped(number: u64) -> String {
        match number {
            0..1000 => number.to_string(),
            _ => format!("{},{:03}", grouped(number / 1000), number % 1000),
        }
    }

    /// Each row with the test, in `tests/server` unless it says otherwise, that shows the limit on both databases or, where no
    /// database counts, in this process.
    #[test]
    fn the_guide_has_one_table_of_the_limits_in_force() {
        let Limits { uploads: Some(uploads), changes: Some(changes), exports: Some(exports) } =
            Limits::PUBLIC
        else {
            panic!("a public server has limits");
        };
        let Patience { connections, silent, .. } = Patience::default();
        let one = |says: String| (says, String::new());
        let of = |own: String, all: usize| (own, all.to_string());
        let rows = [
            // limits::all_servers_on_a_database_count_uploads_together
            ("uploads and agents' results a minute", one(grouped(uploads))),
            // limits::every_other_change_counts_at_any_server_and_reading_does_not
            ("other changes a minute", one(grouped(changes))),
            // limits::an_export_counts_at_any_server_unless_the_client_has_it
            ("exports and comparisons a minute", one(format!("{exports} that it lacks"))),
            // uploads::too_long_and_wrapped_bodies_are_refused, large_uploads::a_file_of_very_many_problems_is_refused
            (
                "an upload",
                one(format!(
                    "{} MiB, {} timings and failures",
                    MAX_UPLOAD_BYTES >> 20,
                    grouped(MAX_UPLOAD_TIMINGS as u64)
                )),
            ),
            // turns::one_client_holds_some_and_others_the_rest; ingest::large_uploads_are_alone
            (
                "uploads arriving",
                (
                    format!("{} when others wait", RECEIVING_AT_ONCE / 4),
                    format!("{RECEIVING_AT_ONCE}; {AT_ONCE} are decoded at once"),
                ),
            ),
            // jobs::only_so_many_follow_jobs_at_a_time
            ("event streams", of((FOLLOWING_AT_ONCE / 4).to_string(), FOLLOWING_AT_ONCE)),
            // listen::one_address_does_not_take_all_connections
            ("connections", of(format!("{}; all behind a proxy", connections / 4), connections)),
            // listen::who_has_sent_nothing_takes_no_place
            ("silent connections", (String::new(), grouped(silent as u64))),
            // jobs::an_account_has_so_many_jobs_at_a_time, jobs::only_so_many_jobs_wait
            ("waiting jobs", (MAX_OWN_JOBS.to_string(), MAX_WAITING_JOBS.to_string())),
            // contributions::story::only_so_many_models_of_an_account_wait
            ("waiting models", one(MAX_WAITING_MODELS.to_string())),
            // limits::an_account_has_so_many_tokens
            ("tokens", one(MAX_TOKENS.to_string())),
            // sign_in::guessing_is_stopped_for_names_that_exist_and_for_others_alike
            (
                "sign-ins in 15 minutes",
                one(format!("{}; {} for a name", SIGN_INS_OF_ADDRESS.quota, SIGN_IN.quota)),
            ),
            // limits::an_address_signs_up_so_often
            ("sign-ups an hour", one(SIGN_UPS_OF_ADDRESS.quota.to_string())),
            // tokens::codes_cannot_be_guessed
            (
                "`diode login` in 15 minutes",
                one(format!("{}; {} codes", DEVICES_OF_ADDRESS.quota, CODES_OF_ACCOUNT.quota)),
            ),
            // moderation::users_report_and_administrators_read
            ("reports a day", one(REPORTS.quota.to_string())),
        ];
        let of_guide = GUIDE.split("## Limits").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
        let listed = of_guide.lines().filter(|line| line.starts_with('|')).count();
        assert_eq!(listed, rows.len() + 2, "rows and the head");
        for (what, (client, server)) in rows {
            let row = format!("| {what} | {client} | {server} |").replace("|  |", "| |");
            assert!(of_guide.contains(&row), "expected the row {row}");
        }
    }
}
