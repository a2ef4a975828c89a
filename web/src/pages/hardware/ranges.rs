//! Bounds on the sizes of the leaderboard's problems. They are checked here, so that no request is sent
//! with bounds that the server would refuse.

use diode_core::{Field, Invalid};
use leptos::prelude::*;

use crate::pages::predict::{plain, size};
use crate::query::{History, parameter, use_set_parameters};

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
mod tests {
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
