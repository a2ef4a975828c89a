//! Contributing from the browser: choose a file, see what was stored.

mod receipt;
mod send;
mod terms;

use diode_core::api::{Receipt, Terms};
use leptos::ev::DragEvent;
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use web_sys::{File, HtmlInputElement};

use self::receipt::ReceiptCard;
use self::send::{Upload, send};
use self::terms::TermsCard;
use crate::components::{Snippet, use_title};
use crate::remote::remote;
use crate::{cache, format};

/// How far a contribution has come.
#[derive(Clone)]
pub(crate) enum Stage {
    Choosing,
    /// The share of the file that has been sent.
    Sending(f64),
    /// All is sent; the server reads, checks and stores.
    Storing,
    Stored(Box<Receipt>),
    Refused(String),
}

#[component]
pub(crate) fn ContributePage() -> impl IntoView {
    use_title(|| "Contribute".to_owned());
    let stage = RwSignal::new(Stage::Choosing);
    let name = RwSignal::new(String::new());
    let over = RwSignal::new(false);
    // Dropping an upload aborts it, so leaving the page does too.
    let upload = StoredValue::new_local(None::<Upload>);
    let terms = remote::<Terms>(|| Some("/terms".to_owned()));
    let agrees = RwSignal::new(false);
    let take = move |file: Option<File>| {
        let Some(file) = file else { return };
        let in_force = untrack(|| terms.value());
        if in_force.as_ref().is_some_and(|terms| terms.asked) && !agrees.get_untracked() {
            name.set(file.name());
            stage.set(Stage::Refused("agree to the terms of contributing first".to_owned()));
            return;
        }
        let agreed = in_force.filter(|_| agrees.get_untracked()).map(|terms| terms.version);
        name.set(format!("{}, {}", file.name(), format::bytes(file.size() as u64)));
        let report = move |next: Stage| {
            if matches!(next, Stage::Stored(_)) {
                cache::clear();
            }
            stage.try_set(next);
        };
        upload.set_value(send(&file, agreed, report));
    };
    let choose = move |event: leptos::ev::Event| {
        let input = event.target().and_then(|target| target.dyn_into::<HtmlInputElement>().ok());
        take(input.as_ref().and_then(|input| input.files()?.get(0)));
        // So that the same file can be chosen again after a refusal.
        if let Some(input) = input {
            input.set_value("");
        }
    };
    let drop = move |event: DragEvent| {
        event.prevent_default();
        over.set(false);
        take(event.data_transfer().and_then(|transfer| transfer.files()?.get(0)));
    };
    let server = window().location().origin().unwrap_or_default();
    view! {
        <main class="page">
            <div>
                <h1>"Contribute"</h1>
                <p class="lede">
                    "Send timings. Impossible times are refused, duplicates are recognised, and a receipt "
                    "means that everything is stored for good."
                </p>
            </div>
            <div class="split even">
                <section class="section">
                    <label
                        class="drop"
                        class:over=move || over.get()
                        on:dragover=move |event: DragEvent| { event.prevent_default(); over.set(true) }
                        on:dragleave=move |_| over.set(false)
                        on:drop=drop
                    >
                        <strong>"Drop a file here, or choose one"</strong>
                        <span class="hint">".msgpack.zst, .msgpack or .json, from diode or torch-diode"</span>
                        <input class="visually-hidden" type="file" on:change=choose />
                    </label>
                    {move || terms.value().map(|terms| view! { <TermsCard terms agrees /> })}
                    {move || view! { <Outcome stage=stage.get() name=name.get() /> }}
                </section>
                <div class="section">
                    <section class="card" data-testid="agent">
                        <h2>"By an agent"</h2>
                        <span class="hint">"It measures what this server lacks, for as long as you let it:"</span>
                        <Snippet text=format!("diode agent --server {server}") />
                        <p class="hint"><a href="/docs/guides/agents.html" rel="external">"How agents work"</a></p>
                    </section>
                    <section class="card">
                        <h2>"From the command line"</h2>
                        <Commands />
                    </section>
                </div>
            </div>
        </main>
    }
}

#[component]
fn Commands() -> impl IntoView {
    let server = window().location().origin().unwrap_or_default();
    view! {
        <ol class="steps">
            <li>
                <span class="hint">"Measure configs on ten shapes, on the GPU if there is one, else on the CPU. The kernels come from this server:"</span>
                <Snippet text=format!("diode collect --server {server} --output my.msgpack.zst") />
            </li>
            <li>
                <span class="hint">"Look at what was measured:"</span>
                <Snippet text="diode stats my.msgpack.zst" />
            </li>
            <li>
                <span class="hint">"Send it:"</span>
                <Snippet text=format!("diode upload my.msgpack.zst --server {server}") />
            </li>
        </ol>
    }
}

#[component]
fn Outcome(stage: Stage, name: String) -> impl IntoView {
    match stage {
        Stage::Choosing => ().into_any(),
        Stage::Sending(share) => {
            let percent = format!("{:.0}", share * 100.0);
            let width = format!("width: {percent}%");
            view! {
                <div class="card">
                    <p>{format!("Sending {name}")}</p>
                    <div class="progress" role="progressbar" aria-valuemin="0" aria-valuemax="100" aria-valuenow=percent>
                        <i style=width></i>
                    </div>
                </div>
            }
            .into_any()
        }
        Stage::Storing => {
            view! { <div class="card"><p role="status">{format!("Checking and storing {name} …")}</p></div> }
                .into_any()
        }
        Stage::Stored(receipt) => view! { <ReceiptCard receipt=*receipt name /> }.into_any(),
        Stage::Refused(message) => view! {
            <div class="failure" role="alert">
                <strong>{format!("Not stored: {name}")}</strong>
                <p>{message}</p>
            </div>
        }
        .into_any(),
    }
}
