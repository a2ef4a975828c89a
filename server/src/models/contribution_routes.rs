//! Models that people contribute: the checks before anything is stored, and the jobs that judge them.

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use diode_api::{
    Account, Job, JobKind, JobRequest, Licence, MAX_MODEL_BYTES, ModelDescription, ModelSource, ModelSummary,
};
use diode_core::Heuristic;
use diode_core::ids::{AccountId, HardwareSlug, JobId, ModelId};
use diode_model::contribution::examine;
use diode_model::{Model, ModelError};
use serde::Deserialize;

use crate::accounts::{Admin, Authorized, Contribute};
use crate::app::App;
use crate::backend::Backend;
use crate::blobs::BlobKind;
use crate::http::stored_file::PRIVATE;
use crate::http::{ApiFault, ApiResult, InPath, StrictQuery, receive};
use crate::jobs::accepted;
use crate::jobs::worker::summarise;
use crate::limits::Client;
use crate::models::answer_with_file;
use crate::store::{
    ContributionFilter, MAX_WAITING_MODELS, NewContribution, Now, Queued, StoreError, TakenModel,
};
use crate::uploads::{read_back, refuse_wrapped};

/// How many models are listed: more than anybody reads at once.
const MAX_LISTED: u32 = 500;

#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ContributionQuery {
    /// What others should know of it, in a line
    #[param(value_type = String)]
    description: ModelDescription,
    /// The terms under which others may use it, as an SPDX expression: `MIT OR Apache-2.0`
    #[param(value_type = String)]
    licence: Licence,
}

/// Contributes a model: a file of `diode train`, as the raw body. The server judges it beside the published one,
/// and shows it to nobody else until an administrator accepts it.
#[utoipa::path(
    post, operation_id = "create", path = "/models", tag = "models", params(ContributionQuery),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 201, body = ModelSummary, description = "Stored, and waits to be judged"),
        (status = 200, body = ModelSummary, description = "The account has sent these very bytes before"),
        (status = 400, description = "Without description or licence"),
        (status = 401),
        (status = 403, description = "A token without the scope, or another site's page"),
        (status = 408, description = "Sent too slowly"),
        (status = 409, description = "Another account has sent it, it is one of the server's, or as many of the account's wait as may"),
        (status = 413, description = "Too large"),
        (status = 415, description = "Wrapped in a form or an encoding, or said to be text"),
        (status = 422, description = "No model, or not one that can be judged here"),
        (status = 429, description = "As many jobs wait as may, or the account has as many as it may"),
        (status = 503, description = "Too many uploads at once"),
        (status = 507, description = "The disk or the quota is full"),
    ),
)]
pub(crate) async fn contribute(
    State(app): State<App>,
    Authorized { account, .. }: Authorized<Contribute>,
    client: Client,
    StrictQuery(query): StrictQuery<ContributionQuery>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<(StatusCode, Json<ModelSummary>)> {
    let account = signed_in(account)?;
    refuse_wrapped(&headers)?;
    let receiving = app.receiving(&client.0).await.ok_or_else(|| {
        ApiFault::busy("as many uploads arrive as the server takes at a time; try again in a few seconds")
    })?;
    let mut file = app.backend.blobs.scratch().await?;
    receive(&headers, body, MAX_MODEL_BYTES, None, &mut file).await.map_err(|error| {
        error.of_file("the model", || {
            format!(
                "model: more than {} KiB, expected a model of `diode train`, which has about 30",
                MAX_MODEL_BYTES >> 10
            )
        })
    })?;
    let _turn = app.backend.storing.turn().await;
    let bytes = read_back(&mut file).await.map_err(ApiFault::unwritable)?;
    drop(receiving);
    let (now, ContributionQuery { description, licence }) = (Now::read(), query);
    let new = prepare(&app.backend, &bytes, account, description, licence, now).await?;
    let id = &new.model.id;
    match add(&app, &new, bytes, now).await? {
        TakenModel::New(model) => Ok((StatusCode::CREATED, Json(*model))),
        TakenModel::There(model) => Ok((StatusCode::OK, Json(*model))),
        TakenModel::OfAnother => {
            Err(ApiFault::taken(format!("model `{id}`: another account has contributed this very file")))
        }
        TakenModel::Known => {
            Err(ApiFault::conflict(format!("this very file is model `{id}` of this server already")))
        }
        TakenModel::TooMany => Err(ApiFault::conflict(format!(
            "{MAX_WAITING_MODELS} models of your account wait for an administrator already, the most there may be"
        ))),
        TakenModel::NoJob(queued) => Err(no_job(queued)),
    }
}

/// Stores the file of a model and adds the model, unless it is refused.
async fn add(app: &App, new: &NewContribution, bytes: Bytes, now: Now) -> ApiResult<TakenModel> {
    let (backend, digest) = (&app.backend, &new.model.digest);
    let refused = backend.store.may_contribute(new, now).await?;
    if !matches!(refused, TakenModel::New(_)) {
        return Ok(refused);
    }
    backend.room_for(bytes.len()).await?.map_err(|full| ApiFault::full(format!("model: {full}")))?;
    // The blob is stored first, since after a crash no row may name a missing blob. If the model is refused after
    // all, the blob is not removed here, because another row may name it by now. `admin sweep` removes it.
    backend.blobs.put(BlobKind::Model, digest, bytes.clone()).await?;
    let taken = backend.store.contribute(new, now).await?;
    if matches!(taken, TakenModel::New(_)) {
        backend.restore(BlobKind::Model, digest, bytes).await?;
    }
    Ok(taken)
}

/// The models that the account has contributed, in every state; the newest 500, newest first.
#[utoipa::path(
    get, operation_id = "list", path = "/contributions", tag = "models",
    responses(
        (status = 200, body = Vec<ModelSummary>),
        (status = 401),
        (status = 403, description = "A token without the scope"),
    ),
)]
pub(crate) async fn contributions(
    State(app): State<App>,
    Authorized { account, .. }: Authorized<Contribute>,
) -> ApiResult<Json<Vec<ModelSummary>>> {
    let filter = ContributionFilter { account: Some(signed_in(account)?), state: None };
    Ok(Json(app.backend.store.contributions(&filter, MAX_LISTED).await?))
}

/// Fails without an account, which does not happen: the right to contribute always needs an account.
fn signed_in(account: Option<Account>) -> ApiResult<AccountId> {
    account.map(|account| account.id).ok_or_else(|| ApiFault::unauthorized("contributing needs an account"))
}

/// The error for a job that could not be queued.
pub(crate) fn no_job(queued: Queued) -> ApiFault {
    let queued = accepted(queued).err();
    queued.unwrap_or_else(|| ApiFault::busy("the job could not be queued; try again in a few seconds"))
}

/// The file of a contributed model, in whichever state it is.
#[utoipa::path(
    get, operation_id = "download", path = "/reviews/{id}/download", tag = "moderation", params(("id" = String, Path)),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 206, body = Vec<u8>, content_type = "application/octet-stream", description = "The part that `Range` asks for"),
        (status = 304, description = "The client has it already"),
        (status = 401),
        (status = 403),
        (status = 416, description = "The file has no such part"),
    ),
)]
pub(crate) async fn download_contribution(
    State(app): State<App>,
    _: Authorized<Admin>,
    InPath(id): InPath<String>,
    method: Method,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let unknown = || {
        ApiFault::not_found(format!(
            "nobody has contributed a model `{id}`; /account/models lists what there is"
        ))
    };
    let parsed: ModelId = id.parse().map_err(|_| unknown())?;
    let model = app.backend.store.contribution(&parsed).await?.ok_or_else(unknown)?;
    answer_with_file(&app, &model, PRIVATE, &method, &headers).await
}

/// Why a model is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotTaken {
    /// The file is no model, or a model that others may not be asked to use.
    #[error(transparent)]
    Model(#[from] ModelError),

    /// This server cannot judge the model.
    #[error("{0}")]
    Refused(String),

    #[error(transparent)]
    Store(#[from] StoreError),

    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// Checks a model's file, and returns what must be stored of it.
pub(crate) async fn prepare(
    backend: &Backend,
    bytes: &[u8],
    account: AccountId,
    description: ModelDescription,
    licence: Licence,
    now: Now,
) -> Result<NewContribution, NotTaken> {
    let model = examine(bytes)?;
    refuse_unmeasured(backend, &model).await?;
    let about = model.metadata();
    let model = ModelSummary { source: ModelSource::Contributed, ..summarise(&model, bytes) };
    let job = judging(about.heuristic, &about.hardware.slug, &model.id, now)?;
    let without_kept = about.training.without_kept;
    Ok(NewContribution { model, account, description, licence, without_kept, job })
}

/// The job that judges a model. Its request does not name the model, because everybody can read requests.
pub(crate) fn judging(
    heuristic: Heuristic,
    hardware: &HardwareSlug,
    model: &ModelId,
    now: Now,
) -> serde_json::Result<Job> {
    let request = JobRequest::new(JobKind::Evaluate, heuristic, hardware.clone());
    let job = crate::jobs::trainings::job(request, false, now)?;
    // The id of a job is a hash of request and time. The model's id is added, because two models may be sent
    // at the same time.
    Ok(Job { id: JobId::of(format!("{model} {}", job.id).as_bytes()), ..job })
}

/// Fails if the server has no measurements by which the model can be judged.
async fn refuse_unmeasured(backend: &Backend, model: &Model) -> Result<(), NotTaken> {
    let hardware = &model.metadata().hardware;
    backend.refuse_simulated(hardware).map_err(|invalid| NotTaken::Refused(invalid.to_string()))?;
    let summary = backend.store.hardware_summary(&hardware.slug).await?;
    if summary.is_some_and(|summary| summary.timings > 0) {
        return Ok(());
    }
    Err(NotTaken::Refused(format!(
        "the model is for `{}`, of which nothing has been measured here, so it cannot be judged; upload timings first",
        hardware.slug
    )))
}
