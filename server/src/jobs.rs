//! Jobs: the queue in the database, the trainings that the server asks for by itself, and the `worker`. Here are the
//! routes, with a job's events as a stream.

pub(crate) mod job_store;
pub mod trainings;
pub mod worker;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use diode_api::{Job, JobEvent, JobKind, JobRequest};
use diode_core::ids::JobId;
use futures_util::{Stream, stream};

use crate::accounts::{Authorized, Right as _, Train};
use crate::app::App;
use crate::http::{ApiFault, ApiResult, FromPath, Lookup, json_body};
use crate::limits::Client;
use crate::store::{MAX_OWN_JOBS, MAX_WAITING_JOBS, Now, Queued, Store, StoreResult};
use crate::turns::Turn;

/// How many jobs a page shows.
const LISTED: u32 = 100;

impl Lookup for Job {
    type Id = JobId;
    const KIND: &'static str = "job";
    const HINT: &'static str = "/api/v1/jobs lists the newest";

    async fn find(store: &Store, id: &JobId) -> StoreResult<Option<Self>> {
        store.job(id).await
    }
}

/// Asks for a job; the worker takes it when its turn comes.
#[utoipa::path(
    post, path = "/jobs", tag = "jobs", request_body = JobRequest,
    responses(
        (status = 202, body = Job),
        (status = 415, description = "Not said to be JSON"),
        (status = 401, description = "Trainings on this server need an account"),
        (status = 403, description = "A token without the scope, or another site's page"),
        (status = 422, description = "There is nothing to work on"),
        (status = 429, description = "As many jobs wait as may, or the account has as many as it may"),
    ),
)]
pub(crate) async fn create(
    State(app): State<App>,
    Authorized { account, .. }: Authorized<Train>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<(StatusCode, Json<Job>)> {
    let mut request: JobRequest = json_body(&headers, body).await?;
    if request.kind != JobKind::Train {
        return Err(ApiFault::refused(format!(
            "kind: got `{}`, expected `train`; administrators ask for a snapshot by POST /api/v1/snapshots",
            request.kind
        )));
    }
    let slug = &request.hardware;
    let summary = app.backend.store.hardware_summary(slug).await?.ok_or_else(|| {
        ApiFault::refused(format!(
            "no hardware `{slug}` to learn about; /api/v1/hardware lists what there is"
        ))
    })?;
    if summary.timings == 0 {
        return Err(ApiFault::refused(format!(
            "nothing has been measured on `{slug}` yet; upload a dataset first"
        )));
    }
    if let Some(method) = request.method.filter(|method| !summary.methods.contains(method)) {
        let there: Vec<_> = summary.methods.iter().map(ToString::to_string).collect();
        let there = there.join(", ");
        return Err(ApiFault::refused(format!(
            "nothing on `{slug}` was timed by {method}; there is {there}"
        )));
    }
    request.hardware = summary.hardware.slug;
    let now = Now::read();
    let job = trainings::job(request, false, now).map_err(ApiFault::internal)?;
    accepted(app.backend.store.enqueue(&job, account.as_ref().map(|account| &account.id), now).await?)?;
    Ok((StatusCode::ACCEPTED, Json(job)))
}

/// Fails if a job could not be queued.
pub(crate) fn accepted(queued: Queued) -> ApiResult<()> {
    match queued {
        Queued::Yes => Ok(()),
        Queued::Full => Err(ApiFault::too_many(format!(
            "{MAX_WAITING_JOBS} jobs wait already, the most there may be; cancel one or try again later"
        ))),
        Queued::TooManyOwn => Err(ApiFault::too_many(format!(
            "{MAX_OWN_JOBS} jobs of your account wait or run already, the most there may be; cancel one or try \
             again later"
        ))),
    }
}

/// Cancels a job that waits or runs. What it has done so far is lost.
#[utoipa::path(
    delete, path = "/jobs/{id}", tag = "jobs", params(("id" = String, Path)),
    responses(
        (status = 200, body = Job),
        (status = 401, description = "Trainings on this server need an account"),
        (status = 403, description = "Another account's job, a token without the scope, or another site's page"),
        (status = 409, description = "It has ended"),
    ),
)]
pub(crate) async fn cancel(
    State(app): State<App>,
    Authorized { account, .. }: Authorized<Train>,
    FromPath(job): FromPath<Job>,
) -> ApiResult<Json<Job>> {
    let owner = app.backend.store.job_owner(&job.id).await?;
    let is_own = owner.as_ref() == account.as_ref().map(|account| &account.id);
    if !is_own && !account.as_ref().is_none_or(|account| account.admin) && !Train::is_free(app.policy()) {
        return Err(ApiFault::forbidden(format!(
            "job `{}` is not your account's; an administrator may cancel it",
            job.id
        )));
    }
    let cancelled = app.backend.store.cancel_job(&job.id, Now::read()).await?;
    let ended = || ApiFault::conflict(format!("job `{}` has ended, so it cannot be cancelled", job.id));
    let cancelled = cancelled.ok_or_else(ended)?;
    if !is_own {
        let who = account.as_ref().map_or("nobody", |account| account.name.as_str());
        let what = format!("cancel job {}", job.id);
        app.backend.store.write_down(&what, "over the web", who, Now::read()).await?;
    }
    Ok(Json(cancelled))
}

/// The newest jobs, newest first.
#[utoipa::path(get, path = "/jobs", tag = "jobs", responses((status = 200, body = Vec<Job>)))]
pub(crate) async fn list(State(app): State<App>) -> ApiResult<Json<Vec<Job>>> {
    Ok(Json(app.backend.store.jobs(LISTED).await?))
}

/// One job.
#[utoipa::path(
    get, path = "/jobs/{id}", tag = "jobs", params(("id" = String, Path)),
    responses((status = 200, body = Job)),
)]
pub(crate) async fn get(FromPath(job): FromPath<Job>) -> Json<Job> {
    Json(job)
}

/// How often the database is asked for events. The worker may be another process, which cannot wake this one.
/// People read more slowly than this.
const POLL: Duration = Duration::from_millis(250);

/// One of the server-sent events.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "for the description alone")]
pub(crate) struct JobMessage {
    /// The number of the event.
    id: String,
    /// A JobEvent, as JSON.
    data: String,
}

/// The steps of a job as they happen, as server-sent events. A client that lost
/// the connection goes on after the `Last-Event-ID` it names; the stream ends
/// with the job.
#[utoipa::path(
    get, operation_id = "get", path = "/jobs/{id}/events", tag = "jobs",
    params(("id" = String, Path), ("last-event-id" = Option<u64>, Header)),
    responses(
        (status = 200, body = JobMessage, content_type = "text/event-stream"),
        (status = 400),
        (status = 503, description = "Too many such streams at once"),
    ),
)]
pub(crate) async fn events(
    State(app): State<App>,
    client: Client,
    FromPath(job): FromPath<Job>,
    headers: HeaderMap,
) -> ApiResult<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
    let after = last_event_id(&headers)?;
    let turn = app.following(&client.0).await.ok_or_else(too_many)?;
    let follower = Follower { app, _turn: turn, job: job.id, after, pending: VecDeque::new(), ended: false };
    let events = stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        Some((Ok(event), follower))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

fn too_many() -> ApiFault {
    ApiFault::busy(
        "as many jobs are followed as the server takes; try again later, or ask for the job itself from time to time",
    )
}

fn last_event_id(headers: &HeaderMap) -> ApiResult<u64> {
    let Some(value) = headers.get("last-event-id") else { return Ok(0) };
    let id = value.to_str().ok().and_then(|text| text.parse().ok());
    id.ok_or_else(|| ApiFault::invalid("Last-Event-ID: expected the number of the last event received"))
}

struct Follower {
    app: App,
    _turn: Turn,
    job: JobId,
    /// The number of the last event that was sent.
    after: u64,
    pending: VecDeque<JobEvent>,
    ended: bool,
}

impl Follower {
    /// The next event; `None` once the job has ended or the server must stop.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                self.after = event.seq;
                self.ended = event.state.is_final();
                return self.encode(&event);
            }
            if self.ended {
                return None;
            }
            // Whether the job has ended is asked before the events are read: a job ends in the same transaction
            // that writes its last event.
            let had_ended = self.job_has_ended().await;
            match self.app.backend.store.job_events(&self.job, self.after).await {
                Ok(events) if events.is_empty() => {
                    if had_ended || self.app.stopping_within(POLL).await {
                        return None;
                    }
                }
                Ok(events) => self.pending = events.into(),
                Err(error) => {
                    // The client reconnects and continues after the last event that it has.
                    tracing::error!(job = %self.job, "event stream ends early: {error}");
                    return None;
                }
            }
        }
    }

    async fn job_has_ended(&self) -> bool {
        let job = self.app.backend.store.job(&self.job).await;
        matches!(job, Ok(Some(job)) if job.state.is_final())
    }

    fn encode(&self, event: &JobEvent) -> Option<Event> {
        match Event::default().id(event.seq.to_string()).json_data(event) {
            Ok(event) => Some(event),
            Err(error) => {
                tracing::error!(job = %self.job, "event {} cannot be written: {error}", event.seq);
                None
            }
        }
    }
}
