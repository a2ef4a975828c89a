use axum::Json;
use axum::extract::State;
use diode_core::Invalid;
use diode_core::api::{ApiError, LeaderboardQuery, LeaderboardRow, LeaderboardSort, Page, SortOrder};
use diode_core::hardware::Hardware;

use crate::app::App;
use crate::http::{ApiResult, Known, StrictQuery};
use crate::store::{BoardQuery, Cursor};

/// One page more than fills a screen.
const DEFAULT_LIMIT: u32 = 50;

/// The best known config of every problem.
#[utoipa::path(
    get, path = "/hardware/{slug}/leaderboard", tag = "hardware",
    params(("slug" = String, Path), LeaderboardQuery),
    responses(
        (status = 200, body = Page<LeaderboardRow>),
        (status = 400, body = ApiError),
        (status = 404, body = ApiError),
    ),
)]
pub(crate) async fn get(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<LeaderboardQuery>,
    Known(hardware): Known<Hardware>,
) -> ApiResult<Json<Page<LeaderboardRow>>> {
    let query = board_query(query)?;
    Ok(Json(app.backend.store.leaderboard(&hardware.slug, &query).await?))
}

fn board_query(query: LeaderboardQuery) -> Result<BoardQuery, Invalid> {
    let sort = query.sort.unwrap_or(LeaderboardSort::Tflops);
    let order = query.order.unwrap_or(match sort {
        LeaderboardSort::Time => SortOrder::Ascending,
        LeaderboardSort::Tflops
        | LeaderboardSort::Roofline
        | LeaderboardSort::Gain
        | LeaderboardSort::Flops => SortOrder::Descending,
    });
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    let after = query.cursor.as_deref().map(|text| Cursor::decode(text, sort, order)).transpose()?;
    Ok(BoardQuery { filter: query, sort, order, limit, after })
}
