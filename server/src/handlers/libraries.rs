use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use diode_core::api::{ApiError, LibraryOn, LibraryUse};

use crate::app::App;
use crate::http::{ApiResult, NoParameters, StrictQuery};

/// The versions of the vendors' libraries beside which was measured, as the uploads say; in the order of their names.
#[utoipa::path(
    get, path = "/libraries", tag = "comparisons",
    responses((status = 200, body = Vec<LibraryUse>), (status = 400, body = ApiError)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    _: StrictQuery<NoParameters>,
) -> ApiResult<Json<Vec<LibraryUse>>> {
    let mut uses: BTreeMap<LibraryOn, LibraryUse> = BTreeMap::new();
    // The newest comes first.
    for upload in app.backend.store.library_uploads().await? {
        let name = upload.of.clone();
        let first = LibraryUse { name: upload.of, uploads: 0, problems: 0, newest_at: upload.received_at };
        let known = uses.entry(name).or_insert(first);
        known.uploads += 1;
        known.problems += upload.problems;
    }
    Ok(Json(uses.into_values().collect()))
}
