//! The pages, one module each.

pub(crate) mod compare;
mod contribute;
mod datasets;
mod hardware;
mod home;
pub(crate) mod list;
mod models;
pub(crate) mod predict;
mod problem;
mod workloads;

use leptos::prelude::*;
use leptos_router::hooks::{use_location, use_params_map};

use crate::components::use_title;

pub(crate) use crate::pages::compare::ComparePage;
pub(crate) use crate::pages::contribute::{ContributePage, UploadPage};
pub(crate) use crate::pages::datasets::{DatasetPage, DatasetsPage};
pub(crate) use crate::pages::hardware::{HardwarePage, config_line, is_wide};
pub(crate) use crate::pages::home::HomePage;
pub(crate) use crate::pages::list::ListPage;
pub(crate) use crate::pages::models::{ModelPage, ModelsPage};
pub(crate) use crate::pages::predict::{About, PredictPage, further_view};
pub(crate) use crate::pages::problem::ProblemPage;
pub(crate) use crate::pages::workloads::{WorkloadBoard, WorkloadPage, WorkloadsPage};

/// The numbers of picks in an evaluation, in order. The evaluation's map sorts them as text.
const TOP_K: [&str; 5] = ["1", "3", "5", "8", "16"];

/// Reads a part of the page's path, such as the id in `/problems/:id`.
fn path_part(name: &'static str) -> Memo<String> {
    let map = use_params_map();
    Memo::new(move |_| map.with(|map| map.get(name).unwrap_or_default()))
}

#[component]
pub(crate) fn NotFoundPage() -> impl IntoView {
    use_title(|| "Not found".to_owned());
    let path = use_location().pathname;
    view! {
        <main class="page">
            <div>
                <h1>"There is no such page"</h1>
                <p class="lede">"There is nothing at " <code>{move || path.get()}</code> ". You may be looking for:"</p>
            </div>
            <div class="cards">
                <a class="card card-link" href="/">
                    <h2>"Overview"</h2>
                    <p class="hint">"Every kind of hardware and its leaderboard."</p>
                </a>
                <a class="card card-link" href="/predict">
                    <h2>"Predict"</h2>
                    <p class="hint">"The best configs for a shape you type in."</p>
                </a>
                <a class="card card-link" href="/models">
                    <h2>"Models"</h2>
                    <p class="hint">"Download a model, or train one on the data."</p>
                </a>
            </div>
        </main>
    }
}
