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

/// A drop-down list. The placeholder is shown while none of the choices is current.
pub(crate) fn select(
    label: &'static str,
    placeholder: Option<&'static str>,
    choices: Vec<Choice>,
    current: impl Fn() -> String + Copy + Send + 'static,
    choose: impl Fn(String) + 'static,
) -> impl IntoView {
    let id = format!("select-{}", label.to_ascii_lowercase().replace(' ', "-"));
    let options = choices.into_iter().map(move |(value, text)| {
        let own = value.clone();
        view! { <option value=value prop:selected=move || current() == own>{text}</option> }
    });
    let placeholder = placeholder.map(|text| {
        view! { <option value="" disabled prop:selected=move || current().is_empty()>{text}</option> }
    });
    view! {
        <div class="field">
            <label for=id.clone()>{label}</label>
            <select id=id on:change=move |event| choose(event_target_value(&event))>
                {placeholder}
                {options.collect_view()}
            </select>
        </div>
    }
}
