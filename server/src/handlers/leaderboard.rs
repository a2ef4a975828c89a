use axum::Json;
use axum::extract::{Path, State};
use diode_core::api::{ApiError, LeaderboardQuery, LeaderboardRow, LeaderboardSort, Page, SortOrder};

use super::hardware;
use crate::app::App;
use crate::http::{ApiResult, Params};
use crate::store::{BoardQuery, Cursor};

/// One page more than fills a screen.
const DEFAULT_LIMIT: u32 = 50;
/// Enough for a program that wants everything, little enough to answer at once.
const MAX_LIMIT: u64 = 500;

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
    Path(slug): Path<String>,
    params: Params,
) -> ApiResult<Json<Page<LeaderboardRow>>> {
    let query = board_query(params)?;
    let summary = hardware::find(&app, &slug).await?;
    Ok(Json(app.backend.store.leaderboard(&summary.hardware.slug, &query).await?))
}

fn board_query(mut params: Params) -> ApiResult<BoardQuery> {
    let mut size = |name| params.number(name, 0..=u64::MAX);
    let filter = LeaderboardQuery {
        min_m: size("min_m")?,
        max_m: size("max_m")?,
        min_n: size("min_n")?,
        max_n: size("max_n")?,
        min_k: size("min_k")?,
        max_k: size("max_k")?,
        op: params.take("op")?,
        dtype: params.take("dtype")?,
        b_layout: params.take("b_layout")?,
        method: params.take("method")?,
        ..LeaderboardQuery::default()
    };
    let sort = params.take("sort")?.unwrap_or(LeaderboardSort::Tflops);
    let order = params.take("order")?.unwrap_or(match sort {
        LeaderboardSort::Time => SortOrder::Ascending,
        LeaderboardSort::Tflops
        | LeaderboardSort::Roofline
        | LeaderboardSort::Gain
        | LeaderboardSort::Flops => SortOrder::Descending,
    });
    let limit = params.number("limit", 1..=MAX_LIMIT)?.map_or(DEFAULT_LIMIT, |limit| limit as u32);
    let cursor: Option<String> = params.take("cursor")?;
    params.finish()?;
    let after = cursor.map(|text| Cursor::decode(&text, sort, order)).transpose()?;
    Ok(BoardQuery { filter, sort, order, limit, after })
}
