use std::cmp::Reverse;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use diode_api::{HardwareSummary, MAX_POINTS, ProblemFilter, ProblemPoint};
use diode_core::Method;
use diode_core::hardware::Hardware;
use diode_core::ids::HardwareSlug;

use super::leaderboard::Entries;
use crate::app::App;
use crate::http::{ApiFault, ApiResult, FromPath, Lookup, StrictQuery};
use crate::page_cache::Question;
use crate::store::{Store, StoreResult};

impl Lookup for HardwareSummary {
    type Id = HardwareSlug;
    const KIND: &'static str = "hardware";
    const HINT: &'static str = "/api/v1/hardware lists what there is";

    async fn find(store: &Store, slug: &HardwareSlug) -> StoreResult<Option<Self>> {
        store.hardware_summary(slug).await
    }
}

/// Reads one row, for routes that need no figures.
impl Lookup for Hardware {
    type Id = HardwareSlug;
    const KIND: &'static str = HardwareSummary::KIND;
    const HINT: &'static str = HardwareSummary::HINT;

    async fn find(store: &Store, slug: &HardwareSlug) -> StoreResult<Option<Self>> {
        store.hardware(slug).await
    }
}

/// How many entries the list of hardware has at most: more than a menu can show.
const MAX_LISTED: usize = 500;

/// The method that the request names or, without one, the method that is shown first.
pub(super) fn shown_method(summary: &HardwareSummary, asked: Option<Method>) -> ApiResult<Method> {
    asked.or(summary.method).ok_or_else(|| {
        ApiFault::not_found(format!("nothing has been uploaded for `{}` yet", summary.hardware.slug))
    })
}

/// Everything that data or models speak of, by slug. At most 500, those with the most problems.
#[utoipa::path(get, path = "/hardware", tag = "hardware", responses((status = 200, body = Vec<HardwareSummary>)))]
pub(crate) async fn list(State(app): State<App>) -> ApiResult<Json<Vec<HardwareSummary>>> {
    let mut all = app.backend.store.hardware_list().await?;
    if all.len() > MAX_LISTED {
        all.sort_by_key(|summary| Reverse(summary.problems));
        all.truncate(MAX_LISTED);
        all.sort_by(|a, b| a.hardware.slug.cmp(&b.hardware.slug));
    }
    Ok(Json(all))
}

/// One kind of hardware.
#[utoipa::path(
    get, path = "/hardware/{slug}", tag = "hardware", params(("slug" = String, Path)),
    responses((status = 200, body = HardwareSummary)),
)]
pub(crate) async fn get(FromPath(summary): FromPath<HardwareSummary>) -> Json<HardwareSummary> {
    Json(summary)
}

/// Every problem that the filters leave as a point of the overview chart; an even
/// sample if there are more than 3,000.
#[utoipa::path(
    get, path = "/hardware/{slug}/problems", tag = "hardware",
    params(("slug" = String, Path), ProblemFilter),
    responses(
        (status = 200, body = Vec<ProblemPoint>),
        (status = 304, description = "The client has it already"),
    ),
)]
pub(crate) async fn problems(
    State(app): State<App>,
    StrictQuery(filter): StrictQuery<ProblemFilter>,
    FromPath(Entries { slug, revision }): FromPath<Entries>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let question = Question::new(slug.clone(), &("points", revision, &filter));
    let make = async { Ok(app.backend.store.problem_points(&slug, &filter, MAX_POINTS).await?) };
    Ok(app.pages.answer(&question, make).await?.reply(&headers))
}
