use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use diode_api::{HardwareSummary, ProblemFilter, SizeMap};

use super::hardware::shown_method;
use crate::app::App;
use crate::http::{ApiResult, FromPath, StrictQuery};
use crate::page_cache::Question;
use crate::size_map::size_map;

/// The most problems that a map is made of. If there are more, it uses an even sample.
const MAX_PROBLEMS: u32 = 100_000;

/// Where Triton is faster than the library, and which tiles win: the problems that the filters leave, by M and N.
#[utoipa::path(
    get, path = "/hardware/{slug}/sizes", tag = "hardware",
    params(("slug" = String, Path), ProblemFilter),
    responses(
        (status = 200, body = SizeMap),
        (status = 304, description = "The client has it already"),
    ),
)]
pub(crate) async fn get(
    State(app): State<App>,
    StrictQuery(filter): StrictQuery<ProblemFilter>,
    FromPath(summary): FromPath<HardwareSummary>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let slug = &summary.hardware.slug;
    let method = shown_method(&summary, filter.method)?;
    let filter = ProblemFilter { method: Some(method), ..filter };
    let revision = app.backend.store.entries_revision(slug).await?;
    let question = Question::new(slug.clone(), &("sizes", revision, &filter));
    let make = async {
        let problems = app.backend.store.sized_problems(slug, &filter, MAX_PROBLEMS).await?;
        Ok(tokio::task::spawn_blocking(move || size_map(&problems, &filter, method)).await?)
    };
    Ok(app.pages.answer(&question, make).await?.reply(&headers))
}
