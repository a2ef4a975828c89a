//! The boards of a hardware. The address names the board that is shown.

use std::sync::Arc;

use diode_api::HardwareSummary;
use leptos::prelude::*;

use super::board::Board;
use super::configs::ConfigBoard;
use super::contributors::ContributorBoard;
use super::coverage::CoverageBoard;
use super::models::ModelBoard;
use super::sizes::SizeBoard;
use crate::components::Chips;
use crate::query::{History, parameter, use_set_parameters};

const KEY: &str = "board";

/// Each board's value in the address, and its name. The first board is shown if the address names none.
const BOARDS: [(&str, &str); 6] = [
    ("", "Problems"),
    ("configs", "Configs"),
    ("sizes", "Sizes"),
    ("coverage", "Coverage"),
    ("contributors", "Contributors"),
    ("models", "Models"),
];

#[component]
pub(super) fn Boards(summary: Arc<HardwareSummary>) -> impl IntoView {
    let named = parameter(KEY);
    let set = use_set_parameters();
    let choices = BOARDS.map(|(value, name)| (value.to_owned(), name.to_owned())).into();
    let shown = move || {
        let summary = Arc::clone(&summary);
        match named.get().as_str() {
            "configs" => view! { <ConfigBoard summary /> }.into_any(),
            "sizes" => view! { <SizeBoard summary /> }.into_any(),
            "coverage" => view! { <CoverageBoard summary /> }.into_any(),
            "contributors" => view! { <ContributorBoard summary /> }.into_any(),
            "models" => view! { <ModelBoard summary /> }.into_any(),
            _ => view! { <Board summary /> }.into_any(),
        }
    };
    view! {
        <Chips label="Board" choices current=named choose=move |value| set(&[(KEY, value)], History::Push) />
        {shown}
    }
}
