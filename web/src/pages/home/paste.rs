//! A field for a pasted shape or list of shapes.

use js_sys::Reflect;
use leptos::ev::{Event, SubmitEvent};
use leptos::prelude::*;
use leptos_router::hooks::use_navigate;
use wasm_bindgen::JsCast as _;
use web_sys::{ClipboardEvent, Element};

use crate::handed_over;
use crate::query::address;

const EXAMPLE: &str = "1x28672x4096 bf16\nor a list, one shape per line";

#[component]
pub(super) fn Paste() -> impl IntoView {
    let (text, is_missing) = (RwSignal::new(String::new()), RwSignal::new(false));
    let navigate = use_navigate();
    let go = move || {
        let given = text.get_untracked();
        is_missing.set(given.trim().is_empty());
        match destination(&given) {
            Destination::Nowhere => {}
            Destination::OneShape(target) => navigate(&target, Default::default()),
            Destination::List => {
                handed_over::put(given);
                navigate("/predict/list", Default::default());
            }
        }
    };
    let submit = {
        let go = go.clone();
        move |event: SubmitEvent| {
            event.prevent_default();
            go();
        }
    };
    // A shape may be pasted anywhere on the page.
    let anywhere = {
        let go = go.clone();
        window_event_listener(leptos::ev::paste, move |event| {
            if let Some(pasted) = pasted_outside_fields(&event) {
                text.set(pasted);
                go();
            }
        })
    };
    on_cleanup(move || anywhere.remove());
    let input = move |event: Event| {
        text.set(event_target_value(&event));
        // A pasted text is complete. A typed text is complete when the reader presses the button.
        if Reflect::get(&event, &"inputType".into()).is_ok_and(|kind| kind == "insertFromPaste") {
            go();
        }
    };
    view! {
        <section class="card" aria-labelledby="paste-title">
            <h2 id="paste-title">"Or paste a shape or a list"</h2>
            <form class="paste" on:submit=submit>
                <textarea
                    class="mono"
                    rows="2"
                    spellcheck="false"
                    aria-label="A shape, or a list with one shape per line"
                    aria-describedby="paste-fault"
                    placeholder=EXAMPLE
                    prop:value=move || text.get()
                    on:input=input
                ></textarea>
                <button type="submit" class="button primary">"Look up"</button>
            </form>
            <p class="hint" id="paste-fault" role="status">
                {move || if is_missing.get() {
                    "Paste a shape first, such as 1x28672x4096 bf16."
                } else {
                    "As soon as it is pasted, here or anywhere on this page, one shape is looked up on all hardware, and a list is predicted in your browser."
                }}
            </p>
        </section>
    }
}

/// The text of a paste. `None` if a field takes it, or if it has no digit and so is no shape.
fn pasted_outside_fields(event: &ClipboardEvent) -> Option<String> {
    let place = event.target()?.dyn_into::<Element>().ok()?;
    let text = event.clipboard_data()?.get_data("text").ok()?;
    let is_field = ["INPUT", "TEXTAREA", "SELECT"].contains(&place.tag_name().as_str());
    (!is_field && text.contains(|c: char| c.is_ascii_digit())).then_some(text)
}

/// The page to which a text leads.
#[derive(Debug, PartialEq)]
enum Destination {
    Nowhere,
    /// The page that compares the shape on all hardware.
    OneShape(String),
    List,
}

fn destination(text: &str) -> Destination {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    match (lines.next(), lines.next()) {
        (None, _) => Destination::Nowhere,
        (Some(shape), None) => Destination::OneShape(address("/compare", [("shape", shape.to_owned())])),
        _ => Destination::List,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_is_a_shape_and_several_are_a_list() {
        assert_eq!(destination(" \n "), Destination::Nowhere);
        let one = Destination::OneShape("/compare?shape=1x2x3%20bf16".to_owned());
        assert_eq!(destination("\n 1x2x3 bf16 \n"), one);
        assert_eq!(destination("1x2x3\n4x5x6"), Destination::List);
    }
}
