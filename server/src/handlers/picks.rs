//! The picks of a hardware's best model, with the times that were measured.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use diode_api::query::from_text;
use diode_api::{MAX_PICKED, ModelSummary, Pick, Picks};
use diode_core::hardware::Hardware;
use diode_core::ids::ProblemId;
use diode_core::{Config, Invalid, Method, Micros, Problem};
use diode_model::{Model, Question, Ranker};
use serde::Deserialize;

use crate::app::App;
use crate::blobs::BlobKind;
use crate::consensus::{ConfigCache, Consensus};
use crate::http::{ApiFault, ApiResult, FromPath, StrictQuery};
use crate::solutions::StoredSolutions;
use crate::store::View;

#[derive(Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct PicksQuery {
    /// How the times were taken that the picks are compared with.
    #[serde(deserialize_with = "from_text")]
    #[param(required = true)]
    method: Option<Method>,
    /// Ids of at most 50 problems, separated by commas.
    #[param(required = true)]
    problems: String,
}

impl PicksQuery {
    fn checked(&self) -> Result<(Method, Vec<ProblemId>), Invalid> {
        let expected = "how the times were taken, such as `median-cold-event`";
        let method = self.method.ok_or_else(|| Invalid::new("method", "nothing", expected))?;
        let problems: Vec<ProblemId> = self.problems.split(',').map(str::parse).collect::<Result<_, _>>()?;
        if problems.len() > MAX_PICKED {
            let given = format_args!("{} ids", problems.len());
            return Err(Invalid::new("problems", given, format!("at most {MAX_PICKED}")));
        }
        Ok((method, problems))
    }
}

/// The first pick of the hardware's best model for some problems, and its measured time. The model may have
/// been trained on these problems.
#[utoipa::path(
    get, path = "/hardware/{slug}/picks", tag = "hardware", params(("slug" = String, Path), PicksQuery),
    responses(
        (status = 200, body = Picks),
        (status = 503, description = "Too many such requests at once"),
    ),
)]
pub(crate) async fn get(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<PicksQuery>,
    FromPath(hardware): FromPath<Hardware>,
) -> ApiResult<Json<Picks>> {
    let (method, problems) = query.checked()?;
    let store = &app.backend.store;
    // Only published models count, because programs use no others.
    let models = store.models(Some(&hardware.slug), 0).await?;
    let Some(summary) = ModelSummary::best_for(&models, &hardware.slug) else {
        return Ok(Json(Picks { model: None, items: Vec::new() }));
    };
    // The turn is taken before the model is read, so that memory holds the models of few requests.
    let _turn = app.picking().await.ok_or_else(|| {
        ApiFault::busy(
            "as many requests for picks are answered as the server takes; try again in a few seconds",
        )
    })?;
    let mut ranker = ranker(&app, summary, method).await?;
    let mut items = Vec::new();
    for id in problems {
        let view = View { hardware: hardware.slug.clone(), problem: id, method };
        let stored = store.view_solutions(&view).await?;
        // Reads one problem at a time, so that memory holds the timings of only one.
        let config_caches = app.config_caches.clone();
        let picked;
        (picked, ranker) = tokio::task::spawn_blocking(move || {
            (config_caches.with(|learnt| pick(&mut ranker, learnt, &view, &stored)), ranker)
        })
        .await?;
        items.extend(picked);
    }
    Ok(Json(Picks { model: Some(summary.id.clone()), items }))
}

/// A ranker that predicts the times of one method by a model.
pub(super) async fn ranker(
    app: &App,
    summary: &ModelSummary,
    method: Method,
) -> ApiResult<Ranker<Arc<Model>>> {
    let bytes = app.backend.blobs.get(BlobKind::Model, &summary.digest).await?;
    let read = move || Model::from_bytes(&bytes).map(|model| model.for_method(method));
    let model = tokio::task::spawn_blocking(read).await?.map_err(ApiFault::internal)?;
    Ok(Ranker::new(Arc::new(model)))
}

/// The config that a model picks first, and its predicted time. `None` for problems that the model cannot
/// rank.
pub(super) fn first_pick(ranker: &mut Ranker<Arc<Model>>, problem: &Problem) -> Option<(Config, Micros)> {
    let best = *ranker.answer(problem, &Question::default()).ok()?.picks.first()?;
    Some((best.config, best.alone))
}

/// `None` if nothing was measured, or the model cannot rank such problems.
fn pick(
    ranker: &mut Ranker<Arc<Model>>,
    learnt: &mut ConfigCache,
    view: &View,
    stored: &StoredSolutions,
) -> Option<Pick> {
    let problem: &Problem = stored.problems.get(&view.problem)?;
    let (config, Micros(predicted_us)) = first_pick(ranker, problem)?;
    let consensus = Consensus::of_stored(stored, learnt);
    // A config that rounds is faster because it computes something else, so it is no measure for one that does not.
    let is_alike = |other: &Config| other.rounds_to_tf32() == config.rounds_to_tf32();
    let best = consensus.configs.iter().find(|agreed| is_alike(&agreed.config)).map(|agreed| agreed.time);
    let measured = consensus.configs.iter().find(|agreed| agreed.config == config).map(|agreed| agreed.time);
    Some(Pick {
        problem_id: view.problem.clone(),
        config,
        predicted_us,
        us: measured.map(|time| time.micros().0),
        share_of_best: best.zip(measured).map(|(best, time)| best.0 / time.0),
    })
}
