//! The bar that takes any text: a shape, a list of shapes, a GPU, a model's name, its config.json, a server's log, or an id.

use std::cell::RefCell;

use diode_core::hardware::find;
use diode_core::ids::ProblemId;
use diode_core::problem::ProblemWords;
use diode_core::{Bias, DType, Layout, Op};
use leptos::ev::{Event, KeyboardEvent, SubmitEvent};
use leptos::html::Textarea;
use leptos::prelude::*;
use leptos::task::spawn_local;
use leptos_router::hooks::use_navigate;
use serde::de::IgnoredAny;
use wasm_bindgen::JsCast as _;
use web_sys::{ClipboardEvent, Element, HtmlElement};

use crate::api;
use crate::components::is_pasted;
use crate::pages::list::Defaults;
use crate::pages::list::keep_pasted;
use crate::pages::predict::{on_hardware, parameters, usual_notation};
use crate::query::link;

const EXAMPLE: &str = "512x14336x4096 bf16 on H200, or a list\nQwen3-8B, config.json, a log, an id";

thread_local! {
    /// A text about a model that was given on another page. It may be too long for an address.
    static GIVEN: RefCell<String> = RefCell::default();
}

/// Takes the text that another page passed on.
pub(crate) fn given_elsewhere() -> String {
    GIVEN.take()
}

/// The id of the bar that every page has.
const EVERYWHERE: &str = "bar";

/// The bar of every page. Its button, `/` and Ctrl+K or ⌘K open it. A page that begins with the same field has the focus moved
/// there instead.
#[component]
pub(crate) fn BarEverywhere() -> impl IntoView {
    let is_open = RwSignal::new(false);
    let element = |selector: &str| {
        let found = document().query_selector(selector).ok().flatten();
        found.and_then(|element| element.dyn_into::<HtmlElement>().ok())
    };
    let open = move || {
        // Focusing and opening cannot fail for elements on the page.
        if let Some(field) = element("main .paste textarea") {
            let _ = field.focus();
        } else if let Some(bar) =
            document().get_element_by_id(EVERYWHERE).and_then(|bar| bar.dyn_into::<HtmlElement>().ok())
        {
            let _ = bar.show_popover();
        }
    };
    let keys = window_event_listener(leptos::ev::keydown, move |event: KeyboardEvent| {
        let is_chord = event.key().eq_ignore_ascii_case("k") && (event.ctrl_key() || event.meta_key());
        let is_slash =
            event.key() == "/" && !event.ctrl_key() && !event.meta_key() && !is_in_field(event.target());
        if is_chord || is_slash {
            event.prevent_default();
            open();
        }
    });
    on_cleanup(move || keys.remove());
    let close = move |()| {
        if let Some(bar) = element("#bar:popover-open") {
            let _ = bar.hide_popover();
        }
    };
    let toggled = move |_| is_open.set(element("#bar:popover-open").is_some());
    view! {
        <button type="button" class="icon-button" title="Look up (/ or Ctrl+K)" aria-label="Look up a shape, a GPU or a model" aria-keyshortcuts="/ Control+K Meta+K" on:click=move |_| open()>
            <svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2" aria-hidden="true">
                <circle cx="10.5" cy="10.5" r="6.5" />
                <path d="M15.5 15.5 21 21" stroke-linecap="round" />
            </svg>
        </button>
        <div id=EVERYWHERE class="card" popover="auto" role="search" aria-label="Look up" on:toggle=toggled>
            {move || is_open.get().then(|| view! { <LookUp done=Callback::new(close) /> })}
        </div>
    }
}

/// The bar. Texts about models go to `take`, or to the page of models without it.
#[component]
pub(crate) fn LookUp(
    #[prop(optional, into)] take: Option<Callback<String>>,
    /// Called with the text as the reader types it.
    #[prop(optional, into)]
    typed: Option<Callback<String>>,
    /// Called once another page opens. A bar with it has the focus from the start.
    #[prop(optional, into)]
    done: Option<Callback<()>>,
) -> impl IntoView {
    let (text, fault) = (RwSignal::new(String::new()), RwSignal::new(None::<String>));
    let navigate = use_navigate();
    let go = move || {
        let given = text.get_untracked();
        fault.set(None);
        let to = {
            let navigate = navigate.clone();
            move |target: &str| {
                if let Some(done) = done {
                    done.run(());
                }
                navigate(target, Default::default());
            }
        };
        match (Destination::of(&given), take) {
            (Destination::Fault(why), _) => fault.set(Some(why)),
            (Destination::Page(target), _) => to(&target),
            (Destination::Id(id), _) => spawn_local(async move {
                match page_of(&id).await {
                    Some(target) => to(&target),
                    None => {
                        fault.try_set(Some(format!(
                            "No problem, model or upload of this server has the id {id}."
                        )));
                    }
                }
            }),
            (Destination::List, _) => {
                keep_pasted(given);
                to("/predict/list");
            }
            (Destination::Workloads, Some(take)) => take.run(given),
            (Destination::Workloads, None) => {
                GIVEN.set(given);
                to("/workloads");
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
    // Enter looks up what stands on one line. In a list it begins the next line, as in any field of several lines.
    let enter = {
        let go = go.clone();
        move |event: KeyboardEvent| {
            let is_line = text.with_untracked(|text| !text.trim().contains('\n'));
            if event.key() == "Enter" && !event.shift_key() && is_line {
                event.prevent_default();
                go();
            }
        }
    };
    let input = move |event: Event| {
        text.set(event_target_value(&event));
        // A typed text is complete when the reader presses the button.
        if is_pasted(&event) {
            go();
        } else if let Some(typed) = typed {
            typed.run(event_target_value(&event));
        }
    };
    let field = NodeRef::<Textarea>::new();
    field.on_load(move |field| {
        if done.is_some() {
            // Focusing cannot fail for an element on the page.
            let _ = field.focus();
        }
    });
    // A page may have two bars: its own and that of every page.
    let fault_id = if done.is_some() { "bar-fault" } else { "paste-fault" };
    view! {
        <form class="paste" on:submit=submit>
            <textarea
                class="mono"
                rows="2"
                spellcheck="false"
                aria-label="A shape, a list of shapes, a GPU, a model's name, its config.json, a log or an id"
                aria-describedby=fault_id
                aria-invalid=move || if fault.with(Option::is_some) { "true" } else { "false" }
                placeholder=EXAMPLE
                prop:value=move || text.get()
                on:input=input
                on:keydown=enter
                node_ref=field
            ></textarea>
            <button type="submit" class="button primary">"Look up"</button>
        </form>
        <p class="hint" class:error-text=move || fault.with(Option::is_some) id=fault_id role="status">
            {move || fault.get().unwrap_or_else(|| "Paste it here or anywhere on this page. Predictions are made in your browser.".to_owned())}
        </p>
    }
}

/// Whether an event is of a field in which the reader writes.
fn is_in_field(target: Option<web_sys::EventTarget>) -> bool {
    let element = target.and_then(|target| target.dyn_into::<Element>().ok());
    element.is_some_and(|element| ["INPUT", "TEXTAREA", "SELECT"].contains(&element.tag_name().as_str()))
}

/// The page of whatever has an id.
async fn page_of(id: &str) -> Option<String> {
    for (path, page) in [
        (format!("/problems/{id}"), format!("/problems/{id}")),
        (format!("/models/{id}"), format!("/models/{id}")),
        (format!("/uploads/{id}"), format!("/uploads/{id}")),
    ] {
        if api::get::<IgnoredAny>(&path).await.is_ok() {
            return Some(page);
        }
    }
    None
}

/// The text of a paste. `None` if a field takes it, or if it has no digit and so names nothing.
fn pasted_outside_fields(event: &ClipboardEvent) -> Option<String> {
    let text = event.clipboard_data()?.get_data("text").ok()?;
    (!is_in_field(event.target()) && text.contains(|c: char| c.is_ascii_digit())).then_some(text)
}

/// Where a text leads.
#[derive(Debug, PartialEq)]
enum Destination {
    /// Nowhere, for this reason.
    Fault(String),
    Page(String),
    Id(String),
    List,
    Workloads,
}

impl Destination {
    fn of(text: &str) -> Self {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let (first, second) = (lines.next(), lines.next());
        let Some(line) = first else {
            let what = "Paste a shape, a GPU or a model's name first, such as 512x14336x4096 bf16 on H200 or Qwen3-235B-A22B.";
            return Self::Fault(what.to_owned());
        };
        if line.starts_with('{') || text.lines().any(is_of_server) {
            return Self::Workloads;
        }
        if second.is_some() || line.starts_with('[') && line.contains('{') {
            return Self::List;
        }
        let (shape, hardware) = on_hardware(line);
        let shape = &usual_notation(shape);
        if is_shape(shape) {
            let slug = hardware.map(|one| one.slug.to_string());
            let page = |text: &str| {
                let said = ProblemWords::read(text).map_err(|error| error.to_string())?;
                of_shape(&said, slug.clone())
            };
            // fp8 needs scales. Predict shows how they are chosen, and offers the others.
            return page(shape)
                .or_else(
                    |why| if why.starts_with("scaling") { page(&format!("{shape} row")) } else { Err(why) },
                )
                .map_or_else(|why| Self::Fault(format!("{why}.")), Self::Page);
        }
        if line.parse::<ProblemId>().is_ok() {
            return Self::Id(line.to_owned());
        }
        match find(line).filter(|_| line.split_whitespace().count() <= 3) {
            Some(hardware) => Self::Page(format!("/hardware/{}", hardware.slug)),
            None => Self::Workloads,
        }
    }
}

/// The address of Predict for a shape, on the hardware that the text names or that the reader looked at last.
fn of_shape(said: &ProblemWords, hardware: Option<String>) -> Result<String, String> {
    // Whatever the text leaves out has the usual value of Predict's form, so only its faults are of interest here.
    let usual = Defaults { op: Op::Mm, dtype: DType::BFloat16, b_layout: Layout::Row, bias: Bias::Vector };
    usual.problem(said.clone())?;
    let mut said = parameters(said.clone());
    if said.iter().any(|(key, _)| *key == "b") && !said.iter().any(|(key, _)| *key == "op") {
        said.push(("op", Op::Bmm.to_string()));
    }
    said.extend(hardware.map(|slug| ("hardware", slug)));
    Ok(link("/predict", said))
}

/// Whether a line is one that vLLM or SGLang prints about files of tuned configs.
fn is_of_server(line: &str) -> bool {
    ["device_name=", "MoE backend", "MoE config", "MoE kernel config"]
        .iter()
        .any(|words| line.contains(words))
}

/// Whether a line is a shape, or begins like one, so that its fault is named as that of a shape.
fn is_shape(line: &str) -> bool {
    let is_id = line.parse::<ProblemId>().is_ok();
    !is_id
        && (line.starts_with(|c: char| c.is_ascii_digit() || "([".contains(c))
            || line.contains('=')
            || ProblemWords::read(line).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_is_a_shape_and_several_are_a_list() {
        let page = |address: &str| Destination::Page(address.to_owned());
        assert_eq!(Destination::of("\n 1x2x3 bf16 \n"), page("/predict?m=1&n=2&k=3&dtype=bfloat16"));
        for (text, address) in [
            (
                "512x14336x4096 bf16 on H200",
                "/predict?m=512&n=14336&k=4096&dtype=bfloat16&hardware=nvidia-h200",
            ),
            ("M=512 N=14336 K=4096 on nvidia-h100", "/predict?m=512&n=14336&k=4096&hardware=nvidia-h100"),
            ("[512, 4096] @ [14336, 4096].T", "/predict?m=512&n=14336&k=4096&a_layout=row&b_layout=column"),
            ("8x16x32x64 fp16", "/predict?b=8&m=16&n=32&k=64&dtype=float16&op=bmm"),
            (
                "16x4096x14336 fp8 row",
                "/predict?op=scaled_mm&m=16&n=4096&k=14336&dtype=float8_e4m3fn&scaling=row",
            ),
            ("1x2x3 fp8", "/predict?op=scaled_mm&m=1&n=2&k=3&dtype=float8_e4m3fn&scaling=row"),
            ("4096^3 bf16 x @ W.T", "/predict?m=4096&n=4096&k=4096&dtype=bfloat16&b_layout=column"),
            ("512³ x @ W on H200", "/predict?m=512&n=512&k=512&hardware=nvidia-h200"),
            ("H200", "/hardware/nvidia-h200"),
            ("NVIDIA H100", "/hardware/nvidia-h100"),
        ] {
            assert_eq!(Destination::of(text), page(address), "{text}");
        }
        let experts = Destination::of("moe 128x768x2048 top8 64 tokens");
        assert!(
            matches!(&experts, Destination::Page(address) if address.contains("op=fused_moe")),
            "{experts:?}"
        );
        for (text, words) in [(" \n ", "Paste a shape"), ("1x2", "got `1x2`"), ("M=1 N=2", "all three")] {
            let fault = Destination::of(text);
            assert!(matches!(&fault, Destination::Fault(why) if why.contains(words)), "{text}: {fault:?}");
        }
        for text in
            ["1x2x3\n4x5x6", "AUTOTUNE mm(16x64, 64x32)\nstrides: [64, 1], [32, 1]", r#"[{"op": "mm"}]"#]
        {
            assert_eq!(Destination::of(text), Destination::List);
        }
        assert_eq!(Destination::of("0123456789abcdef"), Destination::Id("0123456789abcdef".to_owned()));
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
