use axum::Json;
use axum::extract::{Path, State};
use diode_core::api::{ApiError, ConfigResult, FailedConfig, ProblemDetail, ProblemView};
use diode_core::hardware::Hardware;
use diode_core::ids::{HardwareSlug, ProblemId};
use diode_core::{Method, Nanos, Problem};

use crate::app::App;
use crate::consensus::Consensus;
use crate::http::{ApiFault, ApiResult, Params, from_path};
use crate::solutions::{Damaged, StoredSolutions};
use crate::store::View;

/// Every config that was tried on a problem, by one method on one hardware;
/// the first view there is unless one is named.
#[utoipa::path(
    get, path = "/problems/{id}", tag = "problems",
    params(("id" = String, Path), ("hardware" = Option<String>, Query), ("method" = Option<Method>, Query)),
    responses(
        (status = 200, body = ProblemDetail),
        (status = 400, body = ApiError),
        (status = 404, body = ApiError),
    ),
)]
pub(crate) async fn get(
    State(app): State<App>,
    Path(id): Path<String>,
    mut params: Params,
) -> ApiResult<Json<ProblemDetail>> {
    const HINT: &str = "the rows of /api/v1/hardware/{slug}/leaderboard hold problem ids";
    let hardware: Option<HardwareSlug> = params.take("hardware")?;
    let method: Option<Method> = params.take("method")?;
    params.finish()?;
    let id: ProblemId = from_path(&id, HINT)?;
    let store = &app.backend.store;
    let problem = store.problem(&id).await?;
    let problem = problem.ok_or_else(|| ApiFault::not_found(format!("no problem `{id}`; {HINT}")))?;
    let views = store.problem_views(&id).await?;
    let view = choose(&id, &views, hardware.as_ref(), method)?;
    let summary = store.hardware(&view.hardware).await?;
    let hardware =
        summary.ok_or_else(|| ApiFault::not_found(format!("no hardware `{}`", view.hardware)))?.hardware;
    let stored = store.view_solutions(&view).await?;
    let detail =
        tokio::task::spawn_blocking(move || detail(problem, hardware, view, views, &stored)).await??;
    Ok(Json(detail))
}

fn choose(
    id: &ProblemId,
    views: &[ProblemView],
    hardware: Option<&HardwareSlug>,
    method: Option<Method>,
) -> ApiResult<View> {
    let wanted = |view: &&ProblemView| {
        hardware.is_none_or(|h| *h == view.hardware) && method.is_none_or(|m| m == view.method)
    };
    let view = views.iter().find(wanted).ok_or_else(|| {
        let there: Vec<_> = views.iter().map(|v| format!("{} by {}", v.hardware, v.method)).collect();
        ApiFault::not_found(format!(
            "problem `{id}` was not measured that way; there is {}",
            there.join(", ")
        ))
    })?;
    Ok(View { hardware: view.hardware.clone(), problem: id.clone(), method: view.method })
}

fn detail(
    problem: Problem,
    hardware: Hardware,
    view: View,
    views: Vec<ProblemView>,
    stored: &StoredSolutions,
) -> Result<ProblemDetail, Damaged> {
    let consensus = Consensus::of(&stored.decode()?);
    Ok(ProblemDetail {
        roofline_us: consensus.roofline(&problem, &hardware).map(|nanos| Nanos(nanos).micros().0),
        problem_id: view.problem,
        problem,
        hardware,
        method: view.method,
        views,
        solutions: consensus.solutions,
        configs: consensus
            .configs
            .iter()
            .map(|c| ConfigResult { config: c.config, us: c.time.micros().0, timings: c.timings })
            .collect(),
        failures: consensus
            .failures
            .into_iter()
            .map(|(config, reason)| FailedConfig { config, reason })
            .collect(),
    })
}
