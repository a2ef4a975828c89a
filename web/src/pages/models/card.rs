//! A model in the list.

use diode_core::api::{ModelSource, ModelSummary};
use leptos::prelude::*;

use super::metrics::short;
use crate::components::Stats;
use crate::format;

/// Where the model comes from and what it was trained for: `shipped · mm · bfloat16`.
pub(super) fn tags(model: &ModelSummary) -> Vec<String> {
    let source = match model.source {
        ModelSource::Shipped => "shipped with Diode",
        ModelSource::Trained => "trained here",
    };
    let ops = model.ops.iter().map(ToString::to_string);
    let dtypes = model.dtypes.iter().map(ToString::to_string);
    std::iter::once(source.to_owned()).chain(ops).chain(dtypes).collect()
}

pub(super) fn card(model: &ModelSummary) -> impl IntoView + use<> {
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
        <a class="card card-link" href=format!("/models/{}", model.id)>
            <div class="card-head">
                <h2>{model.hardware.to_string()}</h2>
                <code class="hint">{model.id.to_string()}</code>
            </div>
            <div class="tags">
                {tags(model).into_iter().map(|tag| view! { <span class="tag">{tag}</span> }).collect_view()}
            </div>
            {numbers}
            <p class="hint">{size}</p>
        </a>
    }
}
