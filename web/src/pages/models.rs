//! Models: the list, the page of one model, and the form that trains another.

mod about;
mod card;
mod curves;
mod detail;
mod each_problem;
mod history;
mod jobs;
mod judged;
mod kept;
mod metrics;
mod none;
mod progress;
mod train;

pub(crate) use card::card;
pub(crate) use detail::ModelPage;
pub(crate) use none::NoModels;

use diode_api::{HardwareSummary, ModelSummary};
use leptos::prelude::*;

use self::jobs::Jobs;
use self::train::Train;
use crate::components::{Loaded, use_title};
use crate::query::parameter;
use crate::remote::remote;

#[component]
pub(crate) fn ModelsPage() -> impl IntoView {
    use_title(|| "Models".to_owned());
    let models = remote::<Vec<ModelSummary>>(|| Some("/models".to_owned()));
    let hardware = remote::<Vec<HardwareSummary>>(|| Some("/hardware".to_owned()));
    let wanted = parameter("hardware");
    let cards = move |models: &[ModelSummary]| {
        let shown = wanted.with(|wanted| {
            let of_wanted = |model: &&ModelSummary| wanted.is_empty() || model.hardware.as_str() == wanted;
            models.iter().filter(of_wanted).map(card).collect::<Vec<_>>()
        });
        if shown.is_empty() {
            view! { <NoModels hardware /> }.into_any()
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
            <Loaded remote=models height="20rem" children=move |models| move || cards(&models) />
            <Loaded remote=hardware height="9rem" children=move |hardware| view! { <Train hardware models /> } />
            <Jobs />
        </main>
    }
}
