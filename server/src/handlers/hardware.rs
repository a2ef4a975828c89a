use axum::Json;
use axum::extract::{Path, State};
use diode_core::api::{ApiError, HardwareSummary, ProblemPoint};
use diode_core::ids::HardwareSlug;

use crate::app::App;
use crate::http::{ApiFault, ApiResult, Params, from_path};

/// More points than pixels tell nothing more.
const MAX_POINTS: u32 = 5_000;

/// Everything that data or models speak of.
#[utoipa::path(get, path = "/hardware", tag = "hardware", responses((status = 200, body = Vec<HardwareSummary>)))]
pub(crate) async fn list(State(app): State<App>, params: Params) -> ApiResult<Json<Vec<HardwareSummary>>> {
    params.finish()?;
    Ok(Json(app.backend.store.hardware_list().await?))
}

/// One kind of hardware.
#[utoipa::path(
    get, path = "/hardware/{slug}", tag = "hardware", params(("slug" = String, Path)),
    responses((status = 200, body = HardwareSummary), (status = 404, body = ApiError)),
)]
pub(crate) async fn get(
    State(app): State<App>,
    Path(slug): Path<String>,
    params: Params,
) -> ApiResult<Json<HardwareSummary>> {
    params.finish()?;
    Ok(Json(find(&app, &slug).await?))
}

/// Every problem as a point of the overview chart; an even sample if there are
/// more than 5,000.
#[utoipa::path(
    get, path = "/hardware/{slug}/problems", tag = "hardware", params(("slug" = String, Path)),
    responses((status = 200, body = Vec<ProblemPoint>), (status = 404, body = ApiError)),
)]
pub(crate) async fn problems(
    State(app): State<App>,
    Path(slug): Path<String>,
    params: Params,
) -> ApiResult<Json<Vec<ProblemPoint>>> {
    params.finish()?;
    let summary = find(&app, &slug).await?;
    Ok(Json(app.backend.store.problem_points(&summary.hardware.slug, MAX_POINTS).await?))
}

/// The hardware of a slug, or the fault that says where to look.
pub(super) async fn find(app: &App, slug: &str) -> ApiResult<HardwareSummary> {
    const HINT: &str = "/api/v1/hardware lists what there is";
    let slug: HardwareSlug = from_path(slug, HINT)?;
    let summary = app.backend.store.hardware(&slug).await?;
    summary.ok_or_else(|| ApiFault::not_found(format!("no hardware `{slug}`; {HINT}")))
}
