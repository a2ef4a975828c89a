use axum::Json;
use axum::extract::State;
use diode_api::{Measuring, MeasuringQuery};
use diode_core::hardware::Hardware;

use crate::app::App;
use crate::http::{ApiResult, FromPath, StrictQuery};
use crate::store::Now;

/// Whether problems are measured on a hardware, are to be, or cannot be; in the order in which they are asked about.
#[utoipa::path(
    get, path = "/hardware/{slug}/wanted", tag = "agents", params(("slug" = String, Path), MeasuringQuery),
    responses((status = 200, body = Vec<Measuring>)),
)]
pub(crate) async fn get(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<MeasuringQuery>,
    FromPath(hardware): FromPath<Hardware>,
) -> ApiResult<Json<Vec<Measuring>>> {
    let problems = query.problems()?;
    Ok(Json(app.backend.store.measuring(&hardware.slug, &problems, Now::read()).await?))
}
