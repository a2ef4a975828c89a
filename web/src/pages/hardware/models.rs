//! The models of a hardware.

use std::sync::Arc;

use diode_api::{HardwareSummary, ModelSummary};
use leptos::prelude::*;

use crate::components::{Empty, Loaded};
use crate::pages::models::card;
use crate::query::link;
use crate::remote::remote;

#[component]
pub(super) fn ModelBoard(summary: Arc<HardwareSummary>) -> impl IntoView {
    let path = link("/models", [("hardware", summary.hardware.slug.to_string())]);
    let train = format!("{path}#train");
    let models = remote::<Vec<ModelSummary>>(move || Some(path.clone()));
    let cards = move |models: Arc<Vec<ModelSummary>>| {
        if models.is_empty() {
            let train = train.clone();
            return view! { <Empty heading="No model has been trained for this hardware">"What has been measured may be enough: " <a href=train>"train one"</a> "."</Empty> }
                .into_any();
        }
        view! { <div class="cards">{models.iter().map(card).collect_view()}</div> }.into_any()
    };
    view! {
        <section class="section" aria-labelledby="board-title">
            <h2 id="board-title">"Models"</h2>
            <Loaded remote=models height="14rem" children=cards />
        </section>
    }
}
