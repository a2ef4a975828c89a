use axum::Json;
use axum::extract::State;
use diode_api::{HardwareSummary, NearestProblem, NearestQuery};

use crate::app::App;
use crate::http::{ApiResult, FromPath, StrictQuery};

/// How many problems are listed: few enough to read at a glance.
const DEFAULT_LIMIT: u32 = 5;

/// The measured problems that are most like a shape, the nearest first. Empty if none of its type was measured.
#[utoipa::path(
    get, path = "/hardware/{slug}/nearest", tag = "hardware", params(("slug" = String, Path), NearestQuery),
    responses((status = 200, body = Vec<NearestProblem>)),
)]
pub(crate) async fn get(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<NearestQuery>,
    FromPath(summary): FromPath<HardwareSummary>,
) -> ApiResult<Json<Vec<NearestProblem>>> {
    let problem = query.problem()?;
    // A hardware without data has no method and no problems.
    let Some(method) = query.method.or(summary.method) else { return Ok(Json(Vec::new())) };
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    let slug = &summary.hardware.slug;
    Ok(Json(app.backend.store.nearest_problems(slug, &problem, method, limit).await?))
}
