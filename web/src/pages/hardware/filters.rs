//! The leaderboard's filters and its choice of kernels. They are in the page's address, so every view has a link and the
//! back button works. Bounds on sizes are checked here, so that no request is sent that the server would refuse.

use std::fmt::Display;
use std::sync::Arc;

use diode_api::{HardwareSummary, KernelResult, Kernels, LeaderboardRow};
use diode_core::problem::size;
use diode_core::{Field, Invalid, Method};
use leptos::prelude::*;
use leptos_router::params::ParamsMap;

use crate::components::{Chips, Choice, Loaded, Select, empty, named, unnamed};
use crate::format;
use crate::pages::predict::plain;
use crate::query::{History, parameter, parameter_or, use_set_parameters};
use crate::remote::Remote;

/// The parameters of the filters, as the API names them.
const KEYS: [&str; 12] = [
    "op", "dtype", "scaling", "b_layout", "aligned", "method", "min_m", "max_m", "min_n", "max_n", "min_k",
    "max_k",
];

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

/// The layouts of the second operand, in the words of those who write it.
pub(crate) const LAYOUTS: [(&str, &str); 3] = [("", "any"), ("row", "x @ W"), ("column", "nn.Linear")];

/// Whether rows are aligned.
pub(crate) const ALIGNMENTS: [(&str, &str); 3] =
    [("", "any"), ("true", "N, K multiples of 8"), ("false", "not multiples of 8")];

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
    let library = format::library(summary.hardware.vendor);
    let sizes: [Memo<String>; 6] = std::array::from_fn(|place| values[KEYS.len() - 6 + place]);
    let any_size = sizes.iter().any(|size| !size.get_untracked().is_empty());
    view! {
        <div class="filters">
            <KernelSwitch library />
            <List label="Op" key="op" choices=any_of(&summary.ops) />
            <List label="Dtype" key="dtype" choices=any_of(&summary.dtypes) />
            <List label="Scaling" key="scaling" choices=any_of(&summary.scalings) />
            <List label="Layout" key="b_layout" choices=named(&LAYOUTS) />
            <List label="Alignment" key="aligned" choices=named(&ALIGNMENTS) />
            <List label="Timed by" key="method" choices=methods default />
            <details open=any_size>
                <summary>"Sizes"</summary>
                <div class="filters"><Ranges /></div>
            </details>
            <button type="button" class="button small" class:hidden=move || !any_set() on:click=clear>
                "Clear filters"
            </button>
        </div>
    }
}

pub(crate) fn any_of<T: Display>(values: &[T]) -> Vec<Choice> {
    let any = (values.len() > 1).then(|| (String::new(), "any".to_owned()));
    any.into_iter().chain(unnamed(values)).collect()
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
    let (current, set) = (parameter_or(key, default), use_set_parameters());
    let choose = move |value| set(&[(key, value)], History::Push);
    (choices.len() > 1).then(|| view! { <Chips label choices current choose /> })
}

/// The same as a drop-down list, which needs less room.
#[component]
fn List(
    label: &'static str,
    key: &'static str,
    choices: Vec<Choice>,
    #[prop(optional)] default: String,
) -> impl IntoView {
    let (current, set) = (parameter_or(key, default), use_set_parameters());
    let choose = move |value| set(&[(key, value)], History::Push);
    (choices.len() > 1).then(|| view! { <Select label choices current choose /> })
}

/// The parameter of the page's address.
pub(super) const KERNELS: &str = "kernels";

/// Triton's configs are the main subject of the board, so they come first.
const DEFAULT_KERNELS: Kernels = Kernels::Triton;

/// The kernels that the address names. Unknown values fall back to the default here, because the server
/// refuses them.
pub(super) fn chosen() -> Memo<Kernels> {
    let text = parameter(KERNELS);
    Memo::new(move |_| text.with(|text| text.parse().unwrap_or(DEFAULT_KERNELS)))
}

/// The value of the API's parameter for a value in the address.
pub(super) fn asked_for(in_address: String) -> String {
    if in_address.is_empty() { DEFAULT_KERNELS.to_string() } else { in_address }
}

#[component]
pub(crate) fn KernelSwitch(
    /// The choice that applies if the address names none.
    #[prop(default = DEFAULT_KERNELS)]
    usual: Kernels,
    /// The name of the vendor's library.
    #[prop(default = "library")]
    library: &'static str,
) -> impl IntoView {
    let set = use_set_parameters();
    let name = move |kernels: Kernels| match kernels {
        Kernels::Triton => "Triton",
        Kernels::Library => library,
        Kernels::Everything => "both",
    };
    let choices = Kernels::ALL.iter().map(|kernels| (kernels.to_string(), name(*kernels).to_owned()));
    let named = parameter(KERNELS);
    let current =
        Signal::derive(move || named.with(|text| text.parse::<Kernels>().unwrap_or(usual).to_string()));
    let choose = move |value: String| {
        let value = if value == usual.as_str() { String::new() } else { value };
        set(&[(KERNELS, value)], History::Push);
    };
    view! { <Chips label="Show the best of" choices=choices.collect() current choose /> }
}

/// Words for the kernels whose times, rates and gains the board shows.
pub(crate) fn subject(kernels: Kernels, library: &str) -> String {
    match kernels {
        Kernels::Triton => "best Triton config".to_owned(),
        Kernels::Library => library.to_owned(),
        Kernels::Everything => format!("faster of Triton and {library}"),
    }
}

/// The fastest of the chosen kernels for a row's problem.
pub(super) fn shown(row: &LeaderboardRow, kernels: Kernels) -> Option<&KernelResult> {
    let (triton, library) = (row.triton.as_ref(), row.library.as_ref());
    match kernels {
        Kernels::Triton => triton,
        Kernels::Library => library,
        Kernels::Everything => {
            [triton, library].into_iter().flatten().find(|result| result.config == row.best)
        }
    }
}

/// The kernel to compare with: the library, or Triton's best if the board ranks the library.
pub(super) fn other(row: &LeaderboardRow, kernels: Kernels) -> Option<&KernelResult> {
    if kernels == Kernels::Library { row.triton.as_ref() } else { row.library.as_ref() }
}

/// Each size, with the parameters for its lower and upper bound.
const RANGES: [(Field, &str, &str); 3] =
    [(Field::M, "min_m", "max_m"), (Field::N, "min_n", "max_n"), (Field::K, "min_k", "max_k")];

/// Whether the address has invalid bounds.
pub(crate) fn any_fault() -> Memo<bool> {
    let ranges = RANGES.map(|(field, low, high)| (field, parameter(low), parameter(high)));
    Memo::new(move |_| {
        ranges.iter().any(|&(field, low, high)| fault(field, &low.get(), &high.get()).is_some())
    })
}

/// Shows what the filters leave, once it has arrived. Nothing is requested while a bound is invalid, and then this says so.
#[component]
pub(crate) fn Filtered<T, V>(
    remote: Remote<T>,
    height: &'static str,
    children: impl Fn(Arc<T>) -> V + Clone + Send + Sync + 'static,
) -> impl IntoView
where
    T: Send + Sync + 'static,
    V: IntoView + 'static,
{
    let any_fault = any_fault();
    move || {
        if any_fault.get() {
            return empty("Nothing to show", "Correct the sizes above first.");
        }
        view! { <Loaded remote height children=children.clone() /> }.into_any()
    }
}

/// Fields for all bounds.
#[component]
pub(crate) fn Ranges() -> impl IntoView {
    RANGES.map(|(field, low, high)| view! { <Range field low high /> }).collect_view()
}

/// The fields for both bounds of one size, and what is wrong with them.
#[component]
fn Range(field: Field, low: &'static str, high: &'static str) -> impl IntoView {
    let name = field.as_str();
    let (from, to) = (parameter(low), parameter(high));
    let fault = Memo::new(move |_| fault(field, &from.get(), &to.get()));
    let wrong = Signal::derive(move || fault.with(Option::is_some));
    view! {
        <div class="field" role="group" aria-label=name>
            <span class="label">{name}</span>
            <div class="range">
                <Bound key=low placeholder="from" name wrong /> "–" <Bound key=high placeholder="to" name wrong />
            </div>
            {move || fault.get().map(|fault| view! { <p class="error-text" role="alert">{fault.to_string()}</p> })}
        </div>
    }
}

#[component]
fn Bound(
    key: &'static str,
    placeholder: &'static str,
    name: &'static str,
    wrong: Signal<bool>,
) -> impl IntoView {
    let value = parameter(key);
    let set = use_set_parameters();
    view! {
        <input
            type="text"
            inputmode="numeric"
            placeholder=placeholder
            aria-label=format!("{name} {placeholder}")
            aria-invalid=move || if wrong.get() { "true" } else { "false" }
            prop:value=move || value.get()
            on:change=move |event| set(&[(key, plain(&event_target_value(&event)))], History::Push)
        />
    }
}

/// What is wrong with two bounds. Either bound may be empty.
fn fault(field: Field, low: &str, high: &str) -> Option<Invalid> {
    let bound = |text: &str| if text.is_empty() { Ok(None) } else { size(field, text).map(Some) };
    match (bound(low), bound(high)) {
        (Err(fault), _) | (_, Err(fault)) => Some(fault),
        (Ok(Some(low)), Ok(Some(high))) if low > high => {
            Some(Invalid::new(field, format_args!("{low} to {high}"), "the smaller size first"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod ranges_tests {
    use super::*;

    #[test]
    fn bounds_are_sizes_in_order() {
        let said = |low, high| fault(Field::M, low, high).map(|fault| fault.to_string());
        for (low, high) in [("", ""), ("1", ""), ("", "2147483648"), ("64", "64")] {
            assert_eq!(said(low, high), None, "{low} {high}");
        }
        assert_eq!(said("64", "32").as_deref(), Some("M: got 64 to 32, expected the smaller size first"));
        for (low, high) in [("0", ""), ("", "2147483649"), ("x", "1"), ("1.5", ""), ("-1", "")] {
            assert!(
                said(low, high).is_some_and(|said| said.contains("from 1 to 2147483648")),
                "{low} {high}"
            );
        }
    }
}
