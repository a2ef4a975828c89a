//! The leaderboard's filters. They are in the page's address, so every view has a link and the back button
//! works.

use std::sync::Arc;

use diode_api::HardwareSummary;
use diode_core::{Layout, Method};
use leptos::prelude::*;
use leptos_router::params::ParamsMap;

use super::ranges::Ranges;
use crate::components::{Chips, Choice};
use crate::format;
use crate::pages::predict::plain;
use crate::query::{History, parameter, use_set_parameters};

/// The parameters of the filters, as the API names them.
const KEYS: [&str; 10] =
    ["op", "dtype", "b_layout", "method", "min_m", "max_m", "min_n", "max_n", "min_k", "max_k"];

/// The method that is shown if the address names none. `None` if there is no choice.
pub(super) fn default_method(summary: &HardwareSummary) -> Option<Method> {
    Method::shown_first(&summary.methods).filter(|_| summary.methods.len() > 1)
}

/// The filters of the address as parameters of the API. The server refuses unknown values, and the page shows its
/// message.
pub(super) fn filter_parameters(summary: &HardwareSummary, map: &ParamsMap) -> Vec<(&'static str, String)> {
    let value = |key| match (key, map.get(key).filter(|value| !value.is_empty())) {
        ("method", None) => default_method(summary).map(|method| method.to_string()).unwrap_or_default(),
        // The server reads only plain numbers.
        ("min_m" | "max_m" | "min_n" | "max_n" | "min_k" | "max_k", Some(bound)) => plain(&bound),
        (_, given) => given.unwrap_or_default(),
    };
    KEYS.into_iter().map(|key| (key, value(key))).collect()
}

#[component]
pub(super) fn Filters(summary: Arc<HardwareSummary>) -> impl IntoView {
    let set = use_set_parameters();
    let clear = {
        let set = set.clone();
        move |_| set(&KEYS.map(|key| (key, String::new())), History::Push)
    };
    let values = KEYS.map(parameter);
    let any_set = move || values.iter().any(|value| !value.get().is_empty());
    let methods = summary.methods.iter().map(|m| (m.to_string(), format::method(*m))).collect();
    let default = default_method(&summary).map(|method| method.to_string()).unwrap_or_default();
    view! {
        <div class="filters">
            <Filter label="Op" key="op" choices=any_of(&summary.ops) />
            <Filter label="Dtype" key="dtype" choices=any_of(&summary.dtypes) />
            <Filter label="Layout of B" key="b_layout" choices=any_of(Layout::ALL) />
            <Filter label="Method" key="method" choices=methods default />
            <Ranges />
            <button type="button" class="button small" class:hidden=move || !any_set() on:click=clear>
                "Clear filters"
            </button>
        </div>
    }
}

pub(crate) fn any_of<T: ToString>(values: &[T]) -> Vec<Choice> {
    let any = (values.len() > 1).then(|| (String::new(), "any".to_owned()));
    any.into_iter().chain(values.iter().map(|value| (value.to_string(), value.to_string()))).collect()
}

/// Chips for one parameter. No chips if there is only one choice.
#[component]
pub(crate) fn Filter(
    label: &'static str,
    key: &'static str,
    choices: Vec<Choice>,
    /// The choice that applies if the address names none.
    #[prop(optional)]
    default: String,
) -> impl IntoView {
    let current = parameter(key);
    let set = use_set_parameters();
    let shown =
        Memo::new(move |_| Some(current.get()).filter(|v| !v.is_empty()).unwrap_or_else(|| default.clone()));
    let choose = move |value| set(&[(key, value)], History::Push);
    (choices.len() > 1).then(|| view! { <Chips label choices current=shown choose /> })
}
