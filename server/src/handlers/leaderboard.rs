use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use diode_api::{HardwareSummary, Kernels, Leaderboard, LeaderboardQuery, LeaderboardSort, SortOrder};
use diode_core::Invalid;
use diode_core::ids::HardwareSlug;

use crate::app::App;
use crate::http::{ApiResult, FromPath, Lookup, StrictQuery};
use crate::page_cache::Question;
use crate::store::{BoardQuery, Cursor, Ranking, Store, StoreResult};

/// How many rows a page has: a little more than fills a screen.
const DEFAULT_LIMIT: u32 = 50;

/// The board entries of a hardware, at one revision.
pub(crate) struct Entries {
    pub(super) slug: HardwareSlug,
    pub(super) revision: i64,
}

impl Lookup for Entries {
    type Id = HardwareSlug;
    const KIND: &'static str = HardwareSummary::KIND;
    const HINT: &'static str = HardwareSummary::HINT;

    async fn find(store: &Store, slug: &HardwareSlug) -> StoreResult<Option<Self>> {
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
    ),
)]
pub(crate) async fn get(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<LeaderboardQuery>,
    FromPath(Entries { slug, revision }): FromPath<Entries>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let asked = board_query(&query)?;
    let question = Question::new(slug.clone(), &("board", revision, &query));
    let make = async { Ok(app.backend.store.leaderboard(&slug, &asked).await?) };
    Ok(app.pages.answer(&question, make).await?.reply(&headers))
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
