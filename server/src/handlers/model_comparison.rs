//! Compares two models by the measured times of the configs that each picks first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use diode_api::{
    HardwareSummary, Kernels, ModelSummary, ModelType, ProblemFilter, RatioQuery, Ratios, TimedConfig,
};
use diode_core::{Invalid, Problem};
use diode_model::{Model, Ranker};

use super::comparisons::answer;
use super::picks::{first_pick, ranker};
use crate::app::App;
use crate::consensus::Consensus;
use crate::http::{ApiFault, ApiResult, StrictQuery, lookup};
use crate::store::{Pair, Sample, View};

/// How many problems are compared. Both models rank each of them, so more would take seconds.
const MAX_PROBLEMS: u32 = 200;

/// The times of what two models pick first for problems that were measured; at most 200 of them, an even sample.
/// `a` and `b` are ids of models of one hardware. The models may have been trained on these problems.
#[utoipa::path(
    get, path = "/comparisons/models", tag = "comparisons", params(RatioQuery),
    responses(
        (status = 200, body = Ratios),
        (status = 404),
        (status = 422, description = "Models that pick nothing, or of two kinds of hardware"),
        (status = 503, description = "Too many such requests at once"),
    ),
)]
pub(crate) async fn get(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<RatioQuery>,
) -> ApiResult<Json<Ratios>> {
    if query.kernels.is_some_and(|kernels| kernels != Kernels::Triton) {
        return Err(Invalid::new("kernels", "others", "triton: models pick no others here").into());
    }
    let (a, b): (ModelSummary, ModelSummary) = (lookup(&app, &query.a).await?, lookup(&app, &query.b).await?);
    let hardware = of_both(&app, &a, &b).await?;
    let Some(method) = query.method.or(hardware.method) else { return Ok(Json(Ratios::default())) };
    let filter = ProblemFilter { method: Some(method), ..query.filter() };
    let slug = &hardware.hardware.slug;
    let problems = app.backend.store.triton_problems(slug, &filter, MAX_PROBLEMS).await?.items;
    // The turn is taken before the models are read, so that memory holds the models of few requests.
    let _turn = app.picking().await.ok_or_else(|| {
        ApiFault::busy(
            "as many requests for picks are answered as the server takes; try again in a few seconds",
        )
    })?;
    let mut rankers = Rankers { a: ranker(&app, &a, method).await?, b: ranker(&app, &b, method).await? };
    let (mut pairs, mut only_a, mut only_b) = (Vec::new(), 0, 0);
    for problem in problems {
        let view = View { hardware: slug.clone(), problem, method };
        let stored = app.backend.store.view_solutions(&view).await?;
        // Reads one problem at a time, so that memory holds the timings of only one.
        let config_caches = app.config_caches.clone();
        let picked;
        (picked, rankers) = tokio::task::spawn_blocking(move || {
            let picked = config_caches.with(|learnt| {
                let problem = stored.problems.get(&view.problem)?;
                rankers.picked(problem, &Consensus::of_stored(&stored, learnt))
            });
            (picked, rankers)
        })
        .await?;
        match picked {
            Some((problem, Some(a), Some(b))) => pairs.push(Pair { problem, a, b }),
            Some((_, Some(_), None)) => only_a += 1,
            Some((_, None, Some(_))) => only_b += 1,
            Some((_, None, None)) | None => {}
        }
    }
    let pairs = Sample { total: pairs.len() as u64, items: pairs };
    Ok(Json(answer(pairs, only_a, only_b, method, &query).await?))
}

/// The hardware of both models. Fails if they differ.
async fn of_both(app: &App, a: &ModelSummary, b: &ModelSummary) -> ApiResult<HardwareSummary> {
    for model in [a, b] {
        if model.model_type != ModelType::Ranking {
            let given = format_args!("model {}, of type {}", model.id, model.model_type);
            return Err(ApiFault::refused(Invalid::new("model", given, "one of type ranking").to_string()));
        }
    }
    if a.hardware != b.hardware {
        let given = format_args!("models of {} and {}", a.hardware, b.hardware);
        return Err(ApiFault::refused(
            Invalid::new("hardware", given, "two models of one hardware").to_string(),
        ));
    }
    lookup(app, a.hardware.as_str()).await
}

struct Rankers {
    a: Ranker<Arc<Model>>,
    b: Ranker<Arc<Model>>,
}

impl Rankers {
    /// The first pick of each model with its measured time, if it has one. `None` if a model cannot rank such
    /// problems.
    fn picked(
        &mut self,
        problem: &Problem,
        measured: &Consensus,
    ) -> Option<(Problem, Option<TimedConfig>, Option<TimedConfig>)> {
        let timed = |ranker: &mut Ranker<Arc<Model>>| {
            let (config, _) = first_pick(ranker, problem)?;
            let agreed = measured.configs.iter().find(|agreed| agreed.config == config);
            Some(agreed.map(|agreed| TimedConfig { config, us: agreed.time.micros().0 }))
        };
        Some((problem.clone(), timed(&mut self.a)?, timed(&mut self.b)?))
    }
}
