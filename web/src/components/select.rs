//! A choice among several values: chips if all fit in sight, else a list.

use leptos::prelude::*;

/// A value, and its text on the page.
pub(crate) type Choice = (String, String);

/// Chips, one of which is pressed.
#[component]
pub(crate) fn Chips(
    label: &'static str,
    choices: Vec<Choice>,
    #[prop(into)] current: Signal<String>,
    #[prop(into)] choose: Callback<String>,
) -> impl IntoView {
    let chips = choices.into_iter().map(move |(value, text)| {
        let own = value.clone();
        let pressed = move || if current.with(|current| *current == own) { "true" } else { "false" };
        view! {
            <button type="button" class="chip" aria-pressed=pressed on:click=move |_| choose.run(value.clone())>
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
#[component]
pub(crate) fn Select(
    label: &'static str,
    /// The text that is shown while none of the choices is current.
    #[prop(optional)]
    placeholder: Option<&'static str>,
    choices: Vec<Choice>,
    #[prop(into)] current: Signal<String>,
    #[prop(into)] choose: Callback<String>,
) -> impl IntoView {
    let id = format!("select-{}", label.to_ascii_lowercase().replace(' ', "-"));
    let options = choices.into_iter().map(move |(value, text)| {
        let own = value.clone();
        view! { <option value=value prop:selected=move || current.with(|current| *current == own)>{text}</option> }
    });
    let placeholder = placeholder.map(|text| {
        view! { <option value="" disabled prop:selected=move || current.with(String::is_empty)>{text}</option> }
    });
    view! {
        <div class="field">
            <label for=id.clone()>{label}</label>
            <select id=id on:change=move |event| choose.run(event_target_value(&event))>
                {placeholder}
                {options.collect_view()}
            </select>
        </div>
    }
}
