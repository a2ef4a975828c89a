//! The model's view of a problem, computed in the browser.

use std::sync::Arc;

use diode_core::Config;
use diode_core::api::ProblemDetail;
use diode_model::Model;
use leptos::prelude::*;

use crate::charts::{self, Agreement};

/// A predicted time in microseconds per config of the problem; `None` for
/// templates that models do not judge, and for all of them without a model.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Predictions {
    times: Arc<Vec<Option<f64>>>,
    /// Why a model that is there gives none.
    refusal: Option<String>,
}

impl Predictions {
    /// None, for a reason.
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

/// Asks a model for the time of every config that it can judge.
pub(super) fn predicted(model: &Model, detail: &ProblemDetail) -> Predictions {
    let tiled: Vec<Config> =
        detail.configs.iter().map(|result| result.config).filter(|config| config.tile().is_some()).collect();
    match model.predict(&detail.problem, &tiled) {
        Ok(times) => {
            let mut times = times.into_iter();
            let row = |config: &Config| config.tile().and_then(|_| times.next()).map(|time| time.0);
            let times = detail.configs.iter().map(|result| &result.config).map(row).collect();
            Predictions { times: Arc::new(times), refusal: None }
        }
        Err(error) => Predictions::refused(error.to_string()),
    }
}

/// Measured against predicted, or why there is no such picture.
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
        </section>
    }
    .into_any()
}
