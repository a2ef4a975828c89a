//! Models: what there is, one of them in detail, and training another.

mod card;
mod detail;
mod metrics;
mod none;
mod progress;
mod train;

pub(crate) use detail::model;
pub(crate) use none::no_models;

use diode_core::api::{HardwareSummary, ModelSummary};
use leptos::prelude::*;

use self::card::card;
use self::train::train;
use crate::components::{loaded, title};
use crate::query::parameter;
use crate::remote::remote;

pub(crate) fn models() -> impl IntoView {
    title(|| "Models".to_owned());
    let models = remote::<Vec<ModelSummary>>(|| Some("/models".to_owned()));
    let hardware = remote::<Vec<HardwareSummary>>(|| Some("/hardware".to_owned()));
    let wanted = parameter("hardware");
    let cards = move |models: &[ModelSummary]| {
        let shown = wanted.with(|wanted| {
            let of_wanted = |model: &&ModelSummary| wanted.is_empty() || model.hardware.as_str() == wanted;
            models.iter().filter(of_wanted).map(card).collect::<Vec<_>>()
        });
        if shown.is_empty() {
            no_models(hardware).into_any()
        } else {
            view! { <div class="cards">{shown}</div> }.into_any()
        }
    };
    view! {
        <main class="page">
            <div>
                <h1>"Models"</h1>
                <p class="lede">
                    "Each is one small file that ranks every config for any shape. The same file gives the same numbers in "
                    "the browser and on the command line."
                </p>
            </div>
            {move || (!wanted.get().is_empty()).then(|| view! {
                <div class="row">
                    <span class="chip" aria-current="true">{wanted.get()}</span>
                    <a href="/models">"Show all hardware"</a>
                </div>
            })}
            {loaded(models, "20rem", move |models| move || cards(&models))}
            {loaded(hardware, "9rem", move |hardware| train(&hardware, models))}
        </main>
    }
}
