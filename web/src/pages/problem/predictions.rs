//! A model's predictions for the configs of a problem, computed in the browser.

use std::sync::Arc;

use diode_core::Config;
use diode_core::api::{ModelSummary, ProblemDetail};
use diode_model::Model;
use leptos::prelude::*;

use crate::charts::{self, Agreement};
use crate::format;

/// A predicted time in microseconds per config of the problem; `None` for
/// templates that models cannot predict, and for all of them without a model.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Predictions {
    times: Arc<Vec<Option<f64>>>,
    origin: Option<Origin>,
    /// Why the model gives none.
    refusal: Option<String>,
}

/// The model that predictions come from.
#[derive(Debug, Clone, PartialEq)]
struct Origin {
    summary: ModelSummary,
    /// Whether it was trained on problems of this kind, so that this one may be among them.
    may_be_trained_on: bool,
}

impl Predictions {
    /// No predictions, and why.
    pub(super) fn refused(reason: String) -> Self {
        Self { refusal: Some(reason), ..Self::default() }
    }

    /// The predicted time of the config at a rank.
    pub(super) fn of(&self, rank: usize) -> Option<f64> {
        self.times.get(rank).copied().flatten()
    }

    pub(super) fn exist(&self) -> bool {
        !self.times.is_empty()
    }
}

/// Predicts the time of every config that the model can predict.
pub(super) fn predicted(model: &Model, summary: ModelSummary, detail: &ProblemDetail) -> Predictions {
    let tiled: Vec<Config> =
        detail.configs.iter().map(|result| result.config).filter(|config| config.tile().is_some()).collect();
    match model.predict(&detail.problem, &tiled) {
        Ok(times) => {
            let mut times = times.into_iter();
            let row = |config: &Config| config.tile().and_then(|_| times.next()).map(|time| time.0);
            let times = detail.configs.iter().map(|result| &result.config).map(row).collect();
            let may_be_trained_on = model.extrapolates(&detail.problem).is_none();
            let origin = Some(Origin { summary, may_be_trained_on });
            Predictions { times: Arc::new(times), origin, refusal: None }
        }
        Err(error) => Predictions::refused(error.to_string()),
    }
}

/// Measured against predicted, or why there is no chart.
pub(super) fn chart(detail: &ProblemDetail, predictions: &Predictions) -> impl IntoView + use<> {
    if let Some(refusal) = &predictions.refusal {
        return view! { <p class="note">{format!("The model gives no predictions here: {refusal}.")}</p> }
            .into_any();
    }
    if !predictions.exist() {
        return ().into_any();
    }
    let agreements: Vec<Agreement> = detail
        .configs
        .iter()
        .enumerate()
        .filter_map(|(rank, result)| {
            let predicted = predictions.of(rank)?;
            Some(Agreement { label: result.config.label(), measured: result.us, predicted })
        })
        .collect();
    view! {
        <section class="card" aria-label="Measured and predicted">
            <div class="card-head">
                <h2>"Measured and predicted time"</h2>
                <span class="hint">"one dot per config; the ring is the fastest"</span>
            </div>
            {charts::agreement(&agreements)}
            {predictions.origin.as_ref().map(origin_note)}
        </section>
    }
    .into_any()
}

/// Which model it was, and whether the problem may be in its training data.
fn origin_note(origin: &Origin) -> impl IntoView + use<> {
    let model = &origin.summary;
    let trained = format!(
        ", trained {} on {} of this hardware. ",
        format::day(&model.created_at),
        format::counted(model.training_problems, "problem")
    );
    let caution = if origin.may_be_trained_on {
        "This problem may be in its training data."
    } else {
        "It was trained on other operators or types and extrapolates here."
    };
    view! {
        <p class="hint">
            "Predicted by model " <a href=format!("/models/{}", model.id)><code>{model.id.to_string()}</code></a>
            {trained} {caution}
        </p>
    }
}
