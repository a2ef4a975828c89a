//! A model's predictions for the configs of a problem. The browser computes them.

use std::collections::HashMap;
use std::sync::Arc;

use diode_api::{ModelSummary, ProblemDetail};
use diode_core::space::Space;
use diode_core::{Config, Problem, is_kept};
use diode_model::{Model, ModelError, Ranker, rank};
use leptos::prelude::*;

use crate::charts::{self, Agreement};
use crate::format;
use crate::scheduler::yield_to_browser;

/// The predictions, or why there are none.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Predictions {
    /// The model is being fetched.
    #[default]
    Awaited,
    /// The hardware has no model.
    NoModel,
    /// The model cannot predict, for this reason.
    Refused(String),
    Made(Arc<Made>),
}

/// Predicted times, and their origin.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Made {
    /// Microseconds for each config, in the order of the configs. `None` for templates that the model cannot
    /// predict.
    times: Vec<Option<f64>>,
    /// The model that predicted, or that the network belongs to.
    summary: ModelSummary,
    seen: Seen,
}

/// Whether the model has learnt the problem.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Seen {
    Never(&'static str),
    /// A network of the cross-validation predicted. It was trained without the problem.
    LeftOut,
    /// The model was trained on problems of this kind, and perhaps on this one.
    Maybe,
}

impl Seen {
    pub(super) fn by(model: &Model, problem: &Problem) -> Self {
        if model.extrapolates(problem).is_some() {
            return Self::Never("It was trained on other operators or types and extrapolates here.");
        }
        if model.metadata().training.without_kept && is_kept(problem) {
            return Self::Never("It has not learnt this problem, whose size is kept for judging models.");
        }
        Self::Maybe
    }

    /// Whether a network that the server gave instead of a model has learnt the problem. The server gives the model
    /// itself if the model has not learnt the problem.
    pub(super) fn instead_of(model: &Model, given: &Model) -> Self {
        if given.network() == model.network() {
            return Self::Never("It has not learnt this problem.");
        }
        Self::LeftOut
    }

    fn caution(self) -> &'static str {
        match self {
            Self::Never(why) => why,
            Self::LeftOut => "",
            Self::Maybe => "This problem may be in its training data.",
        }
    }
}

impl Predictions {
    /// The predicted time of the config with this rank.
    pub(super) fn of(&self, rank: usize) -> Option<f64> {
        match self {
            Self::Made(made) => made.times.get(rank).copied().flatten(),
            Self::Awaited | Self::NoModel | Self::Refused(_) => None,
        }
    }

    /// Whether the table has columns for predictions. It has them before the times arrive, so that their arrival
    /// moves nothing.
    pub(super) fn have_columns(&self) -> bool {
        matches!(self, Self::Awaited | Self::Made(_))
    }
}

/// Whether a model may have learnt a problem.
pub(super) fn may_have_learnt(model: &Model, problem: &Problem) -> bool {
    Seen::by(model, problem) == Seen::Maybe
}

/// Predicts the time of every config that the network can predict. The network is the model of the summary, which
/// gives the same times as in Predict, or a network of its cross-validation that was trained without the problem.
pub(super) async fn predicted(
    network: &Model,
    summary: ModelSummary,
    seen: Seen,
    detail: &ProblemDetail,
) -> Predictions {
    match times(network, detail).await {
        Ok(times) => Predictions::Made(Arc::new(Made { times, summary, seen })),
        Err(error) => Predictions::Refused(error.to_string()),
    }
}

/// Works in several slices, because each ranking takes long on a slow computer.
async fn times(model: &Model, detail: &ProblemDetail) -> Result<Vec<Option<f64>>, ModelError> {
    yield_to_browser().await;
    let configs = detail.configs.iter().map(|result| result.config);
    let tiled = configs.clone().filter(|config| config.tile().is_some()).collect();
    let ranked = rank(model, &detail.problem, &Space::List(tiled))?;
    let times: HashMap<Config, f64> = ranked.configs.iter().map(|(config, time)| (*config, time.0)).collect();
    yield_to_browser().await;
    // A model predicts the library's time relative to the best config of the model's own space.
    let library = Ranker::new(model).shortlist(&detail.problem, &model.space())?.library.map(|time| time.0);
    yield_to_browser().await;
    let time = |config| if config == Config::Library { library } else { times.get(&config).copied() };
    Ok(configs.map(time).collect())
}

/// A chart of predicted against measured times, or why there is none.
pub(super) fn chart(detail: &ProblemDetail, predictions: &Predictions) -> impl IntoView + use<> {
    let (plot, note) = match predictions {
        Predictions::NoModel => return ().into_any(),
        Predictions::Refused(refusal) => {
            let sentence = format!("The model gives no predictions here: {refusal}.");
            return view! { <p class="note">{sentence}</p> }.into_any();
        }
        // The placeholder is as high as the chart.
        Predictions::Awaited => (
            view! {
                <div class="chart skeleton"></div>
                <div class="row zoom" style="visibility: hidden"><span class="button small">"+"</span></div>
            }
            .into_any(),
            view! { <p class="hint">"…"</p> }.into_any(),
        ),
        Predictions::Made(made) => {
            let agreements: Vec<Agreement> = detail
                .configs
                .iter()
                .enumerate()
                .filter_map(|(rank, result)| {
                    let predicted = predictions.of(rank)?;
                    let name = result.config.label();
                    Some(Agreement { name, measured: result.us, predicted, href: String::new() })
                })
                .collect();
            // The ring marks the fastest config. If that config has no prediction, there is no ring.
            let ring = predictions.of(0).map(|_| 0);
            (charts::of_configs(agreements, ring).into_any(), origin_note(made).into_any())
        }
    };
    view! {
        <section class="card" aria-label="Measured and predicted">
            <div class="card-head">
                <h2>"Measured and predicted time"</h2>
                <span class="hint">"one dot per config; the ring is the fastest"</span>
            </div>
            {plot}
            {note}
        </section>
    }
    .into_any()
}

/// The model that predicted, and whether the problem may be in its training data.
fn origin_note(made: &Made) -> impl IntoView + use<> {
    let model = &made.summary;
    let by = match made.seen {
        Seen::LeftOut => {
            "Predicted by a network that was trained without this problem, in the cross-validation of model "
        }
        Seen::Never(_) | Seen::Maybe => "Predicted by model ",
    };
    let trained = format!(
        ", trained {} on {} of this hardware. ",
        format::day(&model.created_at),
        format::counted(model.training_problems, "problem")
    );
    view! {
        <p class="hint">
            {by} <a href=format!("/models/{}", model.id)><code>{model.id.to_string()}</code></a>
            {trained} {made.seen.caution()}
        </p>
    }
}
