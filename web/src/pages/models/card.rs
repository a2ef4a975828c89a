//! A model's card in the list of models.

use diode_api::{Contribution, ModelSource, ModelState, ModelSummary, ModelType};
use leptos::prelude::*;

use super::metrics::short;
use crate::components::Stats;
use crate::format;

/// Whether the model is published, its origin, and its ops: `published · shipped with Diode · mm`.
pub(super) fn tags(model: &ModelSummary) -> Vec<String> {
    let source = match (model.source, &model.contribution) {
        (ModelSource::Shipped, _) => "shipped with Diode".to_owned(),
        (ModelSource::Trained, _) => "trained here".to_owned(),
        (ModelSource::Contributed, Some(Contribution { by: Some(by), .. })) => format!("contributed by {by}"),
        (ModelSource::Contributed, _) => "contributed".to_owned(),
    };
    let state = match model.state {
        ModelState::Published if model.pinned => "published, pinned",
        ModelState::Published => "published",
        ModelState::Earlier => "published earlier",
        ModelState::Unpublished => "not published",
    };
    let model_type = (model.model_type != ModelType::Ranking).then(|| model.model_type.to_string());
    let withdrawn = (model.withdrawn_uploads > 0)
        .then(|| format!("{} in it no longer count", format::counted(model.withdrawn_uploads, "upload")));
    let ops = model.ops.iter().map(ToString::to_string);
    let dtypes = model.dtypes.iter().map(ToString::to_string);
    [state.to_owned(), source]
        .into_iter()
        .chain(model_type)
        .chain(withdrawn)
        .chain(ops)
        .chain(dtypes)
        .collect()
}

pub(crate) fn card(model: &ModelSummary) -> impl IntoView + use<> {
    let size = format!(
        "{} · {} parameters · trained {} on {}",
        format::bytes(model.bytes),
        format::count(model.parameters),
        format::day(&model.created_at),
        format::counted(model.training_problems, "problem"),
    );
    let numbers =
        model.evaluation.as_ref().map(|evaluation| view! { <Stats inner=true stats=short(evaluation) /> });
    view! {
        <div class="card linked">
            <div class="card-head">
                <h2><a class="card-link" href=format!("/models/{}", model.id)>{model.hardware.to_string()}</a></h2>
                <code class="hint">{model.id.to_string()}</code>
            </div>
            <div class="tags">
                {tags(model).into_iter().map(|tag| view! { <span class="tag">{tag}</span> }).collect_view()}
            </div>
            {numbers}
            <p class="hint">{size}</p>
        </div>
    }
}
