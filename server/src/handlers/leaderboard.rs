use axum::Json;
use axum::extract::State;
use diode_core::Invalid;
use diode_core::api::{ApiError, Kernels, Leaderboard, LeaderboardQuery, LeaderboardSort, SortOrder};
use diode_core::hardware::Hardware;

use crate::app::App;
use crate::http::{ApiResult, Known, StrictQuery};
use crate::store::{BoardQuery, Cursor, Ranking};

/// One page more than fills a screen.
const DEFAULT_LIMIT: u32 = 50;

/// The best known config of every problem, with the best Triton config and the library kernel beside it.
#[utoipa::path(
    get, path = "/hardware/{slug}/leaderboard", tag = "hardware",
    params(("slug" = String, Path), LeaderboardQuery),
    responses(
        (status = 200, body = Leaderboard),
        (status = 400, body = ApiError),
        (status = 404, body = ApiError),
    ),
)]
pub(crate) async fn get(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<LeaderboardQuery>,
    Known(hardware): Known<Hardware>,
) -> ApiResult<Json<Leaderboard>> {
    let query = board_query(&query)?;
    Ok(Json(app.backend.store.leaderboard(&hardware.slug, &query).await?))
}

fn board_query(query: &LeaderboardQuery) -> Result<BoardQuery, Invalid> {
    let sort = query.sort.unwrap_or(LeaderboardSort::Tflops);
    let order = query.order.unwrap_or(match sort {
        LeaderboardSort::Time => SortOrder::Ascending,
        LeaderboardSort::Tflops
        | LeaderboardSort::Roofline
        | LeaderboardSort::Gain
        | LeaderboardSort::Ratio
        | LeaderboardSort::Flops => SortOrder::Descending,
    });
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    let ranking = Ranking { kernels: query.kernels.unwrap_or(Kernels::Everything), sort, order };
    let after = query.cursor.as_deref().map(|text| Cursor::decode(text, ranking)).transpose()?;
    Ok(BoardQuery { filter: query.filter(), ranking, limit, after })
}
