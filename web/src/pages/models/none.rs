//! What can be done where there is no model.

use diode_core::api::HardwareSummary;
use leptos::prelude::*;

use crate::components::{empty, loaded};
use crate::remote::Remote;

/// Leads to training if there is anything to train on, else to contributing.
pub(crate) fn no_models(hardware: Remote<Vec<HardwareSummary>>) -> impl IntoView {
    loaded(hardware, "5rem", |all| {
        if all.iter().any(|summary| summary.timings > 0) {
            let advice = view! {
                <a href="/models#train">"Train one"</a> " on the data that is here: it takes a minute or two."
            };
            empty("No models here yet", advice).into_any()
        } else {
            let advice = view! { <a href="/contribute">"Contribute measurements"</a> ", and models can be trained on them." };
            empty("No data yet", advice).into_any()
        }
    })
}
