//! Choosing one of several: chips where all fit in sight, else a list.

use leptos::prelude::*;

/// A value and how it is written.
pub(crate) type Choice = (String, String);

/// Chips of which one is pressed.
pub(crate) fn chips(
    label: &'static str,
    choices: Vec<Choice>,
    current: impl Fn() -> String + Copy + Send + 'static,
    choose: impl Fn(String) + Clone + 'static,
) -> impl IntoView {
    let chips = choices.into_iter().map(move |(value, text)| {
        let choose = choose.clone();
        let own = value.clone();
        let pressed = move || if current() == own { "true" } else { "false" };
        view! {
            <button type="button" class="chip" aria-pressed=pressed on:click=move |_| choose(value.clone())>
                {text}
            </button>
        }
    });
    view! {
        <div class="field" role="group" aria-label=label>
            <span class="label">{label}</span>
            <div class="chips">{chips.collect_view()}</div>
        </div>
    }
}

/// A drop-down list.
pub(crate) fn select(
    label: &'static str,
    choices: Vec<Choice>,
    current: impl Fn() -> String + Copy + Send + 'static,
    choose: impl Fn(String) + 'static,
) -> impl IntoView {
    let id = format!("select-{}", label.to_ascii_lowercase().replace(' ', "-"));
    let options = choices.into_iter().map(move |(value, text)| {
        let own = value.clone();
        view! { <option value=value selected=move || current() == own>{text}</option> }
    });
    view! {
        <div class="field">
            <label for=id.clone()>{label}</label>
            <select id=id on:change=move |event| choose(event_target_value(&event))>{options.collect_view()}</select>
        </div>
    }
}
