use axum::Json;
use axum::extract::State;
use diode_api::{NearestQuery, ShapeOnHardware};

use crate::app::App;
use crate::http::{ApiResult, StrictQuery};

/// How many problems are listed for a size that was not measured. They are only a hint.
const DEFAULT_LIMIT: u32 = 2;

/// A shape on every hardware side by side: the measured problems of exactly its sizes and type, whatever their op
/// and layout; where there are none, the nearest.
#[utoipa::path(
    get, path = "/nearest", tag = "comparisons", params(NearestQuery),
    responses((status = 200, body = Vec<ShapeOnHardware>)),
)]
pub(crate) async fn get(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<NearestQuery>,
) -> ApiResult<Json<Vec<ShapeOnHardware>>> {
    let problem = query.problem()?;
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    let store = &app.backend.store;
    let mut everywhere = Vec::new();
    for summary in store.hardware_list().await? {
        let slug = &summary.hardware.slug;
        let method = query.method.or(summary.method);
        let (mut exact, mut items) = (false, Vec::new());
        if let Some(method) = method {
            items = store.same_size(slug, &problem, method).await?;
            exact = !items.is_empty();
            if !exact {
                items = store.nearest_problems(slug, &problem, method, limit).await?;
            }
        }
        let (hardware, name) = (summary.hardware.slug, summary.hardware.name);
        everywhere.push(ShapeOnHardware { hardware, name, method, exact, items, models: summary.models });
    }
    Ok(Json(everywhere))
}
