use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use diode_core::Invalid;
use diode_core::api::{
    ApiError, HardwareSummary, Kernels, Leaderboard, LeaderboardQuery, LeaderboardSort, SortOrder,
};
use diode_core::ids::HardwareSlug;

use crate::app::App;
use crate::http::{ApiResult, FromPath, Lookup, StrictQuery, is_current};
use crate::store::{BoardQuery, Cursor, Ranking, Store, StoreResult};

/// One page more than fills a screen.
const DEFAULT_LIMIT: u32 = 50;

/// The entries of a hardware as they are now.
pub(crate) struct Entries {
    slug: HardwareSlug,
    revision: i64,
}

impl Lookup for Entries {
    type Id = HardwareSlug;
    const KIND: &'static str = HardwareSummary::KIND;
    const HINT: &'static str = HardwareSummary::HINT;

    async fn find(store: &dyn Store, slug: &HardwareSlug) -> StoreResult<Option<Self>> {
        let revision = store.hardware_revision(slug).await?;
        Ok(revision.map(|revision| Self { slug: slug.clone(), revision }))
    }
}

/// The best known config of every problem, with the best Triton config and the library kernel beside it.
#[utoipa::path(
    get, path = "/hardware/{slug}/leaderboard", tag = "hardware",
    params(("slug" = String, Path), LeaderboardQuery),
    responses(
        (status = 200, body = Leaderboard),
        (status = 304, description = "The client has it already"),
        (status = 400, body = ApiError),
        (status = 404, body = ApiError),
    ),
)]
pub(crate) async fn get(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<LeaderboardQuery>,
    FromPath(Entries { slug, revision }): FromPath<Entries>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let asked = board_query(&query)?;
    let question = (slug, revision, query);
    let make = async { Ok(app.backend.store.leaderboard(&question.0, &asked).await?) };
    let answer = app.pages.answer(&question, make).await?;
    // Entries change, so a client asks each time whether they have.
    let caching =
        [(header::ETAG, answer.tag.clone()), (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))];
    if is_current(&headers, &answer.tag) {
        return Ok((StatusCode::NOT_MODIFIED, caching).into_response());
    }
    let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    Ok((caching, json, answer.json).into_response())
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
