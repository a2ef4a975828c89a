//! One problem: its best config, how the model sees it, and every config timed.

mod failures;
mod headline;
mod predictions;
mod table;

use std::sync::Arc;

use diode_core::api::{ModelSummary, ProblemDetail};
use leptos::prelude::*;

use self::failures::failures;
use self::predictions::{Predictions, chart, predicted};
use self::table::table;
use super::path_part;
use crate::components::{empty, loaded, title};
use crate::model_store;
use crate::query::{link, parameter};
use crate::remote::{Load, Remote, remote};

pub(crate) fn problem() -> impl IntoView {
    let id = path_part("id");
    let (hardware, method) = (parameter("hardware"), parameter("method"));
    let detail = remote::<ProblemDetail>(move || {
        let view = [("hardware", hardware.get()), ("method", method.get())];
        Some(link(&format!("/problems/{}", id.get()), view))
    });
    title(move || detail.value().map_or_else(|| "Problem".to_owned(), |detail| headline::name(&detail)));
    let predictions = use_predictions(detail);
    view! {
        <main class="page" class:busy=move || detail.busy() && detail.value().is_some()>
            {loaded(detail, "48rem", move |detail| content(detail, predictions))}
        </main>
    }
}

/// What the best model for the hardware predicts for the configs of a problem;
/// `None` until both are there, or if there is no model.
fn use_predictions(detail: Remote<ProblemDetail>) -> Signal<Predictions> {
    let models = remote::<Vec<ModelSummary>>(|| Some("/models".to_owned()));
    let model = model_store::model(move || {
        let (detail, models) = (detail.value()?, models.value()?);
        model_store::best_for(&models, &detail.hardware.slug).map(|model| model.id.to_string())
    });
    let predictions = Memo::new(move |_| match (detail.value(), model.get()) {
        (Some(detail), Load::Ready(model)) => predicted(&model, &detail),
        (_, Load::Failed(message)) => Predictions::refused(message),
        _ => Predictions::default(),
    });
    predictions.into()
}

fn content(detail: Arc<ProblemDetail>, predictions: Signal<Predictions>) -> impl IntoView {
    if detail.configs.is_empty() {
        return view! {
            {headline::headline(&detail)}
            {empty("No config has a time here", "Every config that was tried failed; the reasons are below.")}
            {failures(&detail.failures)}
        }
        .into_any();
    }
    view! {
        {headline::headline(&detail)}
        {
            let detail = Arc::clone(&detail);
            move || chart(&detail, &predictions.get())
        }
        {failures(&detail.failures)}
        {table(detail, predictions)}
    }
    .into_any()
}
