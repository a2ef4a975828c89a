use axum::Json;
use axum::extract::State;
use diode_core::api::{ApiError, CoverageMap, CoverageMapQuery};
use diode_core::hardware::Hardware;
use diode_core::{DType, Op};

use crate::agents::{map, next};
use crate::app::App;
use crate::http::{ApiResult, FromPath, StrictQuery};

/// Enough to see what the plan is about.
const NEXT: u32 = 10;

/// How much of the plan has been measured for one operator and type, by M and N, and what comes next.
#[utoipa::path(
    get, path = "/hardware/{slug}/coverage/map", tag = "agents",
    params(("slug" = String, Path), CoverageMapQuery),
    responses(
        (status = 200, body = CoverageMap),
        (status = 400, body = ApiError),
        (status = 404, body = ApiError),
    ),
)]
pub(crate) async fn get(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<CoverageMapQuery>,
    FromPath(hardware): FromPath<Hardware>,
) -> ApiResult<Json<CoverageMap>> {
    let (op, dtype) = (query.op.unwrap_or(Op::Mm), query.dtype.unwrap_or(DType::BFloat16));
    let store = &app.backend.store;
    let measured = store.measured_problems(&hardware.slug).await?;
    let waiting = store.waiting_work(&hardware.slug, NEXT).await?;
    let count = move || {
        let cells = map(op, dtype, &measured);
        CoverageMap {
            op,
            dtype,
            kinds: cells.iter().map(|cell| cell.kinds).sum(),
            covered: cells.iter().map(|cell| cell.covered).sum(),
            cells,
            next: next(&hardware, waiting, measured, NEXT as usize),
            hardware: hardware.slug,
        }
    };
    Ok(Json(tokio::task::spawn_blocking(count).await?))
}
