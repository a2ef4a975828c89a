//! One problem: its best config, how the model sees it, and every config timed.

mod failures;
mod headline;
mod predictions;
mod table;

use std::sync::Arc;

use diode_core::api::{ModelSummary, ProblemDetail};
use diode_core::ids::ProblemId;
use leptos::prelude::*;

use self::failures::failures;
use self::predictions::{Predictions, chart, predicted};
use self::table::table;
use super::path_part;
use crate::components::{absent, empty, loaded_or_absent, title};
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
    let missing = move || unmeasured(&id.get(), hardware.get(), &method.get());
    view! {
        <main class="page" class:busy=move || detail.busy() && detail.value().is_some()>
            {loaded_or_absent(detail, "48rem", move |detail| content(detail, predictions), missing)}
        </main>
    }
}

/// Stands where nothing was measured: Predict leads here without asking first.
fn unmeasured(id: &str, hardware: String, method: &str) -> AnyView {
    let board = format!("/hardware/{hardware}");
    let predict = link("/predict", [("hardware", hardware.clone())]);
    if id.parse::<ProblemId>().is_err() {
        let sentence = format!("{id} is not the id of a problem.");
        return absent("There is no such problem", sentence, [("/".to_owned(), "All hardware")]);
    }
    let (place, back) = match hardware.as_str() {
        "" => (String::new(), ("/".to_owned(), "All hardware")),
        hardware => (format!(" on {hardware}"), (board, "What was measured")),
    };
    let way = if method.is_empty() { String::new() } else { format!(" by {method}") };
    let sentence = format!("There is no timing of it{place}{way}.");
    absent("Nobody has measured this problem yet", sentence, [(predict, "Back to Predict"), back])
}

/// What the best model for the hardware predicts for the configs of a problem;
/// `None` until both are there, or if there is no model.
fn use_predictions(detail: Remote<ProblemDetail>) -> Signal<Predictions> {
    let models = remote::<Vec<ModelSummary>>(|| Some("/models".to_owned()));
    let chosen = Memo::new(move |_| {
        let (detail, models) = (detail.value()?, models.value()?);
        model_store::best_for(&models, &detail.hardware.slug).cloned()
    });
    let model = model_store::model(move || chosen.get().map(|model| model.id.to_string()));
    let predictions = Memo::new(move |_| match (detail.value(), chosen.get(), model.get()) {
        (Some(detail), Some(summary), Load::Ready(model)) => predicted(&model, summary, &detail),
        (_, _, Load::Failed(reason)) => Predictions::refused(reason.to_string()),
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
