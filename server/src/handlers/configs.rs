use std::collections::BTreeSet;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use diode_api::{ConfigCover, HardwareSummary, ProblemFilter};
use diode_core::Method;
use diode_core::ids::ProblemId;

use super::export::Export;
use super::hardware::shown_method;
use crate::app::App;
use crate::consensus::{ByProblem, Consensus};
use crate::cover::Cover;
use crate::exports::ExportFile;
use crate::http::{ApiFault, ApiResult, FromPath, StrictQuery};
use crate::limits::Client;
use crate::solutions::cut;

/// The most problems that a list is made from. With 1,600 configs each, their timings take 50 MB.
const MAX_PROBLEMS: u32 = 4_000;
/// How many timings are decoded at a time.
const TIMINGS_AT_ONCE: u64 = 1 << 20;
/// How many configs a list has at most. A longer list is no shortlist, and each further config helps few problems.
const MOST_CONFIGS: usize = 128;

/// How few Triton configs are enough for the problems that the filters leave.
#[utoipa::path(
    get, path = "/hardware/{slug}/configs", tag = "hardware",
    params(("slug" = String, Path), ProblemFilter),
    responses(
        (status = 200, body = ConfigCover),
        (status = 304, description = "The client has it already"),
    ),
)]
pub(crate) async fn get(
    State(app): State<App>,
    client: Client,
    StrictQuery(filter): StrictQuery<ProblemFilter>,
    FromPath(summary): FromPath<HardwareSummary>,
    asked: axum::http::Method,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let method = shown_method(&summary, filter.method)?;
    let filter = ProblemFilter { method: Some(method), ..filter };
    let slug = &summary.hardware.slug;
    let name = format!("{slug}-configs.json");
    // The entries decide which problems there are, and may be updated later than the timings. So the file depends
    // on their revision, too.
    let revision = app.backend.store.entries_revision(slug).await?;
    let form = format!("{revision:?} {filter:?}");
    let export = Export { slug, form, name, media: "application/json" };
    export.answer(&app, &client, &asked, &headers, make(&app, &summary, method, &filter)).await
}

/// Uses the consensus of each problem, as the boards do. Reads a few problems at a time.
async fn make(
    app: &App,
    summary: &HardwareSummary,
    method: Method,
    filter: &ProblemFilter,
) -> ApiResult<ExportFile> {
    let store = &app.backend.store;
    let slug = &summary.hardware.slug;
    let sample = store.triton_problems(slug, filter, MAX_PROBLEMS).await?;
    let wanted: BTreeSet<ProblemId> = sample.items.into_iter().collect();
    let (mut cover, mut left_out) = (Cover::default(), 0);
    // Reads runs of neighbouring problems, so that memory holds the timings of one run, even if few of its
    // problems are wanted.
    let sizes = store.problem_sizes(slug, method).await?;
    for problems in cut(&sizes, TIMINGS_AT_ONCE) {
        if wanted.range(problems.clone()).next().is_none() {
            continue;
        }
        let mut stored = store.problems_solutions(slug, method, problems).await?;
        stored.solutions.retain(|solution| wanted.contains(&solution.problem));
        let add = move || {
            let ByProblem { consensuses, left_out } = Consensus::by_problem(&stored);
            for (_, consensus) in consensuses {
                let triton = consensus.configs.iter().filter(|agreed| !agreed.config.is_library());
                cover.add(triton.map(|agreed| (agreed.config, agreed.time.0)));
            }
            (cover, left_out)
        };
        let damaged;
        (cover, damaged) = tokio::task::spawn_blocking(add).await?;
        left_out += damaged;
    }
    let write = move || {
        let (sampled, steps) = (cover.problems(), cover.steps(MOST_CONFIGS));
        serde_json::to_vec(&ConfigCover { method, problems: sample.total, sampled, steps })
    };
    let bytes = tokio::task::spawn_blocking(write).await?.map_err(ApiFault::internal)?;
    Ok(ExportFile { bytes: bytes.into(), left_out })
}
