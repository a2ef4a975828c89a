use axum::Json;
use axum::extract::State;
use diode_api::HardwareContributor;
use diode_core::hardware::Hardware;

use crate::app::App;
use crate::http::{ApiResult, FromPath};

/// How many contributors a page shows.
const MAX_LISTED: u32 = 200;

/// Who measured a hardware, whoever measured most problems first; 200 at most.
#[utoipa::path(
    get, path = "/hardware/{slug}/contributors", tag = "hardware", params(("slug" = String, Path)),
    responses((status = 200, body = Vec<HardwareContributor>)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    FromPath(hardware): FromPath<Hardware>,
) -> ApiResult<Json<Vec<HardwareContributor>>> {
    Ok(Json(app.backend.store.contributors(&hardware.slug, MAX_LISTED).await?))
}
