//! Shown where there is no model yet: what the reader can do.

use diode_api::HardwareSummary;
use leptos::prelude::*;

use crate::components::{Empty, Loaded};
use crate::remote::Remote;

/// A link to training if there is data to train on, else a link to contributing.
#[component]
pub(crate) fn NoModels(hardware: Remote<Vec<HardwareSummary>>) -> impl IntoView {
    let advice = |all: &[HardwareSummary]| {
        if all.iter().any(|summary| summary.timings > 0) {
            view! {
                <Empty heading="No models here yet">
                    <a href="/models#train">"Train one"</a> " on the data that is here: it takes a minute or two."
                </Empty>
            }
        } else {
            view! {
                <Empty heading="No data yet">
                    <a href="/contribute">"Contribute measurements"</a> ", and models can be trained on them."
                </Empty>
            }
        }
    };
    view! { <Loaded remote=hardware height="5rem" children=move |all| advice(&all) /> }
}
