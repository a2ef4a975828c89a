//! The bar that takes any text: a shape, a list of shapes, a model's name, its config.json, or a server's log.

use std::cell::RefCell;

use diode_core::problem::ProblemWords;
use leptos::ev::{Event, SubmitEvent};
use leptos::prelude::*;
use leptos_router::hooks::use_navigate;
use wasm_bindgen::JsCast as _;
use web_sys::{ClipboardEvent, Element};

use crate::components::is_pasted;
use crate::pages::list::keep_pasted;
use crate::query::address;

const EXAMPLE: &str = "1x28672x4096 bf16, or a list\nQwen3-8B, config.json, a log";

thread_local! {
    /// A text about a model that was given on another page. It may be too long for an address.
    static GIVEN: RefCell<String> = RefCell::default();
}

/// Takes the text that another page passed on.
pub(crate) fn given_elsewhere() -> String {
    GIVEN.take()
}

/// The bar. Texts about models go to `take`, or to the page of models without it.
#[component]
pub(crate) fn LookUp(
    #[prop(optional, into)] take: Option<Callback<String>>,
    /// Called with the text as the reader types it.
    #[prop(optional, into)]
    typed: Option<Callback<String>>,
) -> impl IntoView {
    let (text, is_missing) = (RwSignal::new(String::new()), RwSignal::new(false));
    let navigate = use_navigate();
    let go = move || {
        let given = text.get_untracked();
        is_missing.set(given.trim().is_empty());
        match (Destination::of(&given), take) {
            (Destination::Nowhere, _) => {}
            (Destination::OneShape(target), _) => navigate(&target, Default::default()),
            (Destination::List, _) => {
                keep_pasted(given);
                navigate("/predict/list", Default::default());
            }
            (Destination::Workloads, Some(take)) => take.run(given),
            (Destination::Workloads, None) => {
                GIVEN.set(given);
                navigate("/workloads", Default::default());
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
    // A text may be pasted anywhere on the page.
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
        // A typed text is complete when the reader presses the button.
        if is_pasted(&event) {
            go();
        } else if let Some(typed) = typed {
            typed.run(event_target_value(&event));
        }
    };
    view! {
        <form class="paste" on:submit=submit>
            <textarea
                class="mono"
                rows="2"
                spellcheck="false"
                aria-label="A shape, a list of shapes, a model's name, its config.json, or a log"
                aria-describedby="paste-fault"
                placeholder=EXAMPLE
                prop:value=move || text.get()
                on:input=input
            ></textarea>
            <button type="submit" class="button primary">"Look up"</button>
        </form>
        <p class="hint" id="paste-fault" role="status">
            {move || if is_missing.get() {
                "Paste a shape or a model's name first, such as 1x28672x4096 bf16 or Qwen3-235B-A22B."
            } else {
                "Paste it here or anywhere on this page. Predictions are made in your browser."
            }}
        </p>
    }
}

/// The text of a paste. `None` if a field takes it, or if it has no digit and so names nothing.
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
    Workloads,
}

impl Destination {
    fn of(text: &str) -> Self {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let (first, second) = (lines.next(), lines.next());
        let Some(line) = first else { return Self::Nowhere };
        if line.starts_with('{') || text.lines().any(is_of_server) {
            return Self::Workloads;
        }
        match second {
            Some(_) => Self::List,
            None if is_shape(line) => Self::OneShape(address("/compare", [("shape", line.to_owned())])),
            None => Self::Workloads,
        }
    }
}

/// Whether a line is one that vLLM or SGLang prints about files of tuned configs.
fn is_of_server(line: &str) -> bool {
    ["device_name=", "MoE backend", "MoE config", "MoE kernel config"]
        .iter()
        .any(|words| line.contains(words))
}

/// Whether a line is a shape, or begins like one, so that its fault is named as that of a shape.
fn is_shape(line: &str) -> bool {
    line.starts_with(|c: char| c.is_ascii_digit() || "([".contains(c)) || ProblemWords::read(line).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_is_a_shape_and_several_are_a_list() {
        assert_eq!(Destination::of(" \n "), Destination::Nowhere);
        let one = Destination::OneShape("/compare?shape=1x2x3%20bf16".to_owned());
        assert_eq!(Destination::of("\n 1x2x3 bf16 \n"), one);
        assert!(matches!(Destination::of("1x2"), Destination::OneShape(_)));
        assert!(matches!(Destination::of("moe 128x768x2048 top8 64 tokens"), Destination::OneShape(_)));
        assert_eq!(Destination::of("1x2x3\n4x5x6"), Destination::List);
        assert_eq!(
            Destination::of("AUTOTUNE mm(16x64, 64x32)\nstrides: [64, 1], [32, 1]"),
            Destination::List
        );
    }

    #[test]
    fn names_configs_and_logs_lead_to_the_models() {
        for text in [
            "Qwen3-235B-A22B",
            "mistralai/Mixtral-8x7B-v0.1",
            "gpt-oss-20b",
            "hello",
            "{\n  \"model_type\": \"qwen3_moe\"",
            "Loading\nConfig file not found at /x/E=8,N=64,device_name=NVIDIA_H200.json",
            "INFO Using TRITON Fp8 MoE backend out of potential backends",
        ] {
            assert_eq!(Destination::of(text), Destination::Workloads, "{text}");
        }
    }
}
