use axum::Json;
use axum::extract::State;
use diode_api::LibraryUse;

use crate::app::App;
use crate::http::ApiResult;

/// How many versions are listed: more than a menu can show.
const MAX_LISTED: u32 = 500;

/// The versions of the vendors' libraries beside which was measured, as the uploads say; in the order of their names. At most 500, those of the newest uploads.
#[utoipa::path(
    get, path = "/libraries", tag = "comparisons",
    responses((status = 200, body = Vec<LibraryUse>), (status = 400)),
)]
pub(crate) async fn list(State(app): State<App>) -> ApiResult<Json<Vec<LibraryUse>>> {
    Ok(Json(app.backend.store.libraries(MAX_LISTED).await?))
}
