//! What the reader chooses, opens or types: chips if all choices fit in sight, else lists; fields.

use js_sys::Reflect;
use leptos::ev::Event;
use leptos::prelude::*;

use crate::pages::list::one_shape;
use crate::query::{History, parameter, use_set_parameters};

/// A value, and its text on the page.
pub(crate) type Choice = (String, String);

/// Choices whose texts are not their values.
pub(crate) fn named(choices: &[(&str, &str)]) -> Vec<Choice> {
    choices.iter().map(|(value, text)| ((*value).to_owned(), (*text).to_owned())).collect()
}

/// Choices whose texts are their values.
pub(crate) fn unnamed<T: ToString>(values: impl IntoIterator<Item = T>) -> Vec<Choice> {
    values.into_iter().map(|value| (value.to_string(), value.to_string())).collect()
}

/// Chips that set a signal.
pub(crate) fn chips(label: &'static str, choices: Vec<Choice>, chosen: RwSignal<String>) -> AnyView {
    view! { <Chips label choices current=chosen choose=move |value| chosen.set(value) /> }.into_any()
}

/// A drop-down list that sets a signal.
pub(crate) fn select(label: &'static str, choices: Vec<Choice>, chosen: RwSignal<String>) -> AnyView {
    view! { <Select label choices current=chosen choose=move |value| chosen.set(value) /> }.into_any()
}

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

/// The parameter of the address that has the text of a [`shape_field`].
pub(crate) const SHAPE: &str = "shape";

/// A field for a shape, which is in the address. `fault` is what is wrong with it.
pub(crate) fn shape_field(
    id: &'static str,
    label: &'static str,
    placeholder: &'static str,
    fault: impl Fn() -> Option<String> + Copy + Send + Sync + 'static,
) -> AnyView {
    let text = parameter(SHAPE);
    let set = use_set_parameters();
    let write =
        move |event: &Event, history| set(&[(SHAPE, event_target_value(event).trim().to_owned())], history);
    let typed = {
        let write = write.clone();
        // What is not yet a shape is no fault while the reader types.
        move |event: Event| {
            if one_shape(&event_target_value(&event)).is_ok() {
                write(&event, History::Replace);
            }
        }
    };
    let fault_id = format!("{id}-fault");
    view! {
        <div class="field search">
            <label for=id>{label}</label>
            <input
                type="search"
                id=id
                placeholder=placeholder
                aria-describedby=fault_id.clone()
                aria-invalid=move || if fault().is_some() { "true" } else { "false" }
                prop:value=move || text.get()
                on:input=typed
                on:change=move |event| write(&event, History::Push)
            />
            <p class="error-text" id=fault_id role="alert">{fault}</p>
        </div>
    }
    .into_any()
}

/// Whether an event of a `<details>` tells that it is open now.
pub(crate) fn is_open(event: &Event) -> bool {
    let open = event.target().and_then(|target| Reflect::get(&target, &"open".into()).ok());
    open.and_then(|open| open.as_bool()).unwrap_or_default()
}

/// Whether a field's text was pasted. A pasted text is complete, a typed one may not be.
pub(crate) fn is_pasted(event: &Event) -> bool {
    Reflect::get(event, &"inputType".into()).is_ok_and(|kind| kind == "insertFromPaste")
}
