use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use diode_api::{Job, JobKind, JobRequest};
use diode_core::ids::JobId;

use crate::accounts::{Authorized, Right as _, Train};
use crate::app::App;
use crate::http::{ApiFault, ApiResult, FromPath, Lookup, json_body};
use crate::store::{MAX_OWN_JOBS, MAX_WAITING_JOBS, Now, Queued, Store, StoreResult};
use crate::trainings;

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
