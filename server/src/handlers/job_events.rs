use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use diode_api::{Job, JobEvent};
use diode_core::ids::JobId;
use futures_util::{Stream, stream};

use crate::app::App;
use crate::http::{ApiFault, ApiResult, FromPath};
use crate::limits::{Client, Turn};

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
    get, path = "/jobs/{id}/events", tag = "jobs",
    params(("id" = String, Path), ("last-event-id" = Option<u64>, Header)),
    responses(
        (status = 200, body = JobMessage, content_type = "text/event-stream"),
        (status = 400),
        (status = 503, description = "Too many such streams at once"),
    ),
)]
pub(crate) async fn get(
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
