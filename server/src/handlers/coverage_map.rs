use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use diode_api::{CoverageMap, CoverageMapQuery};
use diode_core::hardware::Hardware;
use diode_core::{DType, Op};

use crate::agents::{map, next};
use crate::app::App;
use crate::http::{ApiResult, FromPath, StrictQuery};
use crate::page_cache::Question;

/// How many coming problems are listed: enough to see where the plan goes.
const NEXT: u32 = 10;

/// How much of the plan has been measured for one operator and type, by M and N, and what comes next.
#[utoipa::path(
    get, path = "/hardware/{slug}/coverage/map", tag = "agents",
    params(("slug" = String, Path), CoverageMapQuery),
    responses(
        (status = 200, body = CoverageMap),
        (status = 304, description = "The client has it already"),
    ),
)]
pub(crate) async fn get(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<CoverageMapQuery>,
    FromPath(hardware): FromPath<Hardware>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let (op, dtype) = (query.op.unwrap_or(Op::Mm), query.dtype.unwrap_or(DType::BFloat16));
    let store = &app.backend.store;
    let slug = hardware.slug.clone();
    let state = store.hardware_state(&slug).await?;
    let waiting = store.waiting_work(&slug, NEXT).await?;
    let question = Question::new(slug.clone(), &("map", state, op, dtype, &waiting, hardware.facts));
    let make = async {
        let measured = store.measured_problems(&slug).await?;
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
        Ok(tokio::task::spawn_blocking(count).await?)
    };
    Ok(app.pages.answer(&question, make).await?.reply(&headers))
}
