//! A problem: its best config, a model's predictions, and all timed configs.

mod failures;
mod headline;
mod predictions;
mod snippets;
mod sources;
mod table;

use std::sync::Arc;

use diode_api::{ModelSummary, ProblemDetail};
use diode_core::Problem;
use diode_core::hardware::{find, fits};
use diode_core::ids::ProblemId;
use leptos::prelude::*;
use leptos::task::spawn_local;

use self::failures::failures;
use self::predictions::{Predictions, Seen, chart, may_have_learnt, predicted};
use self::snippets::Snippets;
use self::sources::Sources;
use self::table::ConfigTable;
use super::path_part;
use super::predict::{SHAPE, problem_of};
use crate::components::{Empty, Later, Loaded, MeasureThis, Missing, Skeleton, use_title};
use crate::models;
use crate::query::{link, parameter};
use crate::remote::{Load, Remote, remote};

#[component]
pub(crate) fn ProblemPage() -> impl IntoView {
    let id = path_part("id");
    let (hardware, method) = (parameter("hardware"), parameter("method"));
    let detail = remote::<ProblemDetail>(move || {
        let view = [("hardware", hardware.get()), ("method", method.get())];
        Some(link(&format!("/problems/{}", id.get()), view))
    });
    use_title(move || detail.value().map_or_else(|| "Problem".to_owned(), |detail| headline::name(&detail)));
    let predictions = use_predictions(detail, hardware);
    // If the reader comes from Predict, the address has the shape.
    let shape = SHAPE.map(|key| (key.name, parameter(key.name)));
    let missing = move || {
        let shape = shape.map(|(name, value)| (name, value.get()));
        unmeasured(&id.get(), hardware.get(), &method.get(), shape)
    };
    view! {
        <main class="page" class:busy=move || detail.busy() && detail.value().is_some()>
            <Loaded
                remote=detail
                height="48rem"
                missing
                children=move |detail| view! { <Measured detail predictions /> }
            />
        </main>
    }
}

/// Shown if nothing was measured. Predict links here without knowing whether the problem was measured.
fn unmeasured(
    id: &str,
    hardware: String,
    method: &str,
    shape: [(&'static str, String); SHAPE.len()],
) -> AnyView {
    let board = format!("/hardware/{hardware}");
    // Only an address that comes from Predict describes the problem. Others have only the id.
    let problem = described(&shape).filter(|problem| problem.id().as_str() == id);
    let wanted = Some(hardware.clone()).filter(|slug| !slug.is_empty()).zip(problem);
    let predict = link("/predict", shape.into_iter().chain([("hardware", hardware.clone())]));
    if id.parse::<ProblemId>().is_err() {
        let sentence = format!("{id} is not the id of a problem.");
        return view! {
            <Missing heading="There is no such problem" sentence>
                <a class="button" href="/">"All hardware"</a>
            </Missing>
        }
        .into_any();
    }
    let (place, back) = match hardware.as_str() {
        "" => (String::new(), ("/".to_owned(), "All hardware")),
        hardware => (format!(" on {hardware}"), (board, "What was measured")),
    };
    let way = if method.is_empty() { String::new() } else { format!(" by {method}") };
    let sentence = format!("There is no timing of it{place}{way}.");
    view! {
        <Missing heading="Not measured yet" sentence>
            <a class="button" href=predict>"Back to Predict"</a>
            <a class="button" href=back.0>{back.1}</a>
        </Missing>
        {wanted.map(|(slug, problem)| {
            let too_large = find(&slug).and_then(|hardware| fits(&hardware, &problem).err());
            let wanted = Signal::stored(Some((slug, problem)));
            view! { <MeasureThis wanted too_large=Signal::stored(too_large) /> }
        })}
    }
    .into_any()
}

/// The problem that the shape in the address describes.
fn described(shape: &[(&'static str, String); SHAPE.len()]) -> Option<Problem> {
    let mut values = SHAPE.each_ref().map(|key| key.default);
    for (value, (_, given)) in values.iter_mut().zip(shape).filter(|(_, (_, given))| !given.is_empty()) {
        *value = given;
    }
    problem_of(values).ok()
}

/// The predictions of the hardware's best model for the configs of a problem. If the model may have learnt the
/// problem, a network of its cross-validation predicts instead, one that was trained without the problem.
///
/// If the address names the hardware, the model is fetched together with the problem.
fn use_predictions(detail: Remote<ProblemDetail>, hardware: Memo<String>) -> Signal<Predictions> {
    let listed = remote::<Vec<ModelSummary>>(|| Some("/models".to_owned()));
    let chosen = Memo::new(move |_| {
        let listed = listed.value()?;
        let slug = match hardware.get().parse() {
            Ok(named) => named,
            Err(_) => detail.value()?.hardware.slug.clone(),
        };
        ModelSummary::best_for(&listed, &slug).cloned()
    });
    let model = models::model(move || chosen.get().map(|model| model.id.to_string()));
    let wanted_unseen = Memo::new(move |_| {
        let (summary, model, detail) = (chosen.get()?, model.value()?, detail.value()?);
        (summary.unseen_models && may_have_learnt(&model, &detail.problem))
            .then(|| (summary.id, detail.problem.id()))
    });
    let unseen = models::unseen_model(move || wanted_unseen.get());
    let predictions = RwSignal::new(Predictions::default());
    let newest = StoredValue::new(0_u32);
    Effect::new(move |_| {
        newest.update_value(|number| *number += 1);
        let own = newest.get_value();
        let is_wanted = wanted_unseen.get().is_some();
        let (network, learner) = match unseen.get() {
            unseen @ (Load::Waiting | Load::Ready(_)) if is_wanted => (unseen, model.value()),
            // If the server has removed the networks, the model itself predicts.
            _ => (model.get(), None),
        };
        let known = match (detail.value(), chosen.get(), network) {
            (Some(detail), Some(summary), Load::Ready(network)) => {
                let seen = match learner {
                    Some(learner) => Seen::instead_of(&learner, &network),
                    None => Seen::by(&network, &detail.problem),
                };
                spawn_local(async move {
                    let made = predicted(&network, summary, seen, &detail).await;
                    // The page may be gone by now, or may show another problem.
                    if newest.try_get_value() == Some(own) {
                        predictions.set(made);
                    }
                });
                Predictions::Awaited
            }
            (_, _, Load::Failed(reason)) => Predictions::Refused(reason.to_string()),
            (Some(_), None, _) => match listed.get() {
                Load::Waiting => Predictions::Awaited,
                Load::Ready(_) => Predictions::NoModel,
                Load::Failed(reason) => Predictions::Refused(reason.to_string()),
            },
            _ => Predictions::Awaited,
        };
        if predictions.with_untracked(|before| *before != known) {
            predictions.set(known);
        }
    });
    predictions.into()
}

#[component]
fn Measured(detail: Arc<ProblemDetail>, predictions: Signal<Predictions>) -> impl IntoView {
    if detail.configs.is_empty() {
        return view! {
            {headline::headline(&detail)}
            <Empty heading="No config has a time here">
                "Every config that was tried failed; the reasons are below."
            </Empty>
            {failures(&detail.failures)}
        }
        .into_any();
    }
    // The table waits for the chart. The table is below the first screenful, and its rows would keep a slow
    // computer from drawing the chart. They would also be made twice, the second time with the predicted times.
    let is_chart_settled = Memo::new(move |before: Option<&bool>| {
        before == Some(&true) || predictions.with(|predictions| *predictions != Predictions::Awaited)
    });
    let table = {
        let detail = Arc::clone(&detail);
        move || {
            if is_chart_settled.get() {
                let detail = Arc::clone(&detail);
                view! { <Later height="48rem"><ConfigTable detail=Arc::clone(&detail) predictions /></Later> }
                    .into_any()
            } else {
                view! { <Skeleton height="48rem" /> }.into_any()
            }
        }
    };
    view! {
        {headline::headline(&detail)}
        {
            let detail = Arc::clone(&detail);
            move || chart(&detail, &predictions.get())
        }
        {failures(&detail.failures)}
        <Snippets detail=Arc::clone(&detail) />
        {table}
        <Later height="12rem"><Sources detail=Arc::clone(&detail) /></Later>
    }
    .into_any()
}
