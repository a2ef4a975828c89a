//! The page for contributing: choose files, see what was stored and who else measures.

mod queue;

use std::sync::Arc;

use diode_api::upload_check::Contents;
use diode_api::{Receipt, SetApart, Terms};
use leptos::ev::DragEvent;
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use web_sys::{FileList, HtmlInputElement};

use crate::components::{Snippet, use_title};
use crate::format;
use crate::pages::contribute::queue::Fleet;
use crate::pages::contribute::queue::Queue;
use crate::query::server_address;
use crate::remote::remote;

/// The state of a file.
#[derive(Clone)]
pub(crate) enum Stage {
    /// Other files are sent first.
    Waiting,
    /// The page checks the file. Nothing of it has been sent.
    Checking,
    /// The share of the file that has been sent.
    Sending(f64),
    /// The whole file has been sent. The server reads, checks and stores it.
    Storing,
    Stored(Box<Receipt>),
    /// The page found a fault, so the file is not sent.
    NotSent(String),
    /// The file was sent, but the server did not store it.
    Refused(String),
    /// The file was sent, and no answer came that says what became of it.
    Unanswered(String),
}

impl Stage {
    fn has_failed(&self) -> bool {
        matches!(self, Self::NotSent(_) | Self::Refused(_) | Self::Unanswered(_))
    }

    fn is_over(&self) -> bool {
        self.has_failed() || matches!(self, Self::Stored(_))
    }
}

#[component]
pub(crate) fn ContributePage() -> impl IntoView {
    use_title(|| "Contribute".to_owned());
    let queue = Queue::of_tab();
    let over = RwSignal::new(false);
    let terms = remote::<Terms>(|| Some("/terms".to_owned()));
    let agrees = RwSignal::new(false);
    let take = move |files: Option<FileList>| {
        let in_force = untrack(|| terms.value());
        let may_send = !in_force.as_ref().is_some_and(|terms| terms.asked) || agrees.get_untracked();
        let agreed = in_force.filter(|_| agrees.get_untracked()).map(|terms| terms.version);
        for file in files.iter().flat_map(|files| (0..files.length()).filter_map(|index| files.get(index))) {
            let terms = if may_send { Ok(agreed) } else { Err("agree to the terms of contributing first") };
            queue.add(file, terms);
        }
    };
    let choose = move |event: leptos::ev::Event| {
        let input = event.target().and_then(|target| target.dyn_into::<HtmlInputElement>().ok());
        take(input.as_ref().and_then(HtmlInputElement::files));
        // Empties the field, so that the same files can be chosen again after a refusal.
        if let Some(input) = input {
            input.set_value("");
        }
    };
    let drop = move |event: DragEvent| {
        event.prevent_default();
        over.set(false);
        take(event.data_transfer().and_then(|transfer| transfer.files()));
    };
    let server = server_address();
    view! {
        <main class="page">
            <div>
                <h1>"Contribute"</h1>
                <p class="lede">
                    "Send timings. Each file is checked here before it is sent: impossible times are refused. "
                    "Duplicates are recognised, and a receipt means that everything is stored for good. What is yours: "
                    <a href="/account/contributions" rel="external">"your uploads, agents and records"</a> "; your "
                    <a href="/account" rel="external">"account and tokens"</a> "."
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
                        <strong>"Drop files here, or choose them"</strong>
                        <span class="hint">".msgpack.zst, .msgpack or .json, from diode or torch-diode"</span>
                        <input class="visually-hidden" type="file" multiple on:change=choose />
                    </label>
                    {move || terms.value().map(|terms| view! { <TermsCard terms agrees /> })}
                    <For
                        each=move || queue.entries()
                        key=|entry| entry.number
                        children=|entry| {
                            move || view! { <Outcome stage=entry.stage.get() name=entry.name.clone() found=entry.found /> }
                        }
                    />
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
            <Fleet />
        </main>
    }
}

#[component]
fn Commands() -> impl IntoView {
    let server = server_address();
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
fn Outcome(
    stage: Stage,
    name: String,
    /// The contents of the file, once the page has checked it.
    found: RwSignal<Vec<Contents>>,
) -> impl IntoView {
    match stage {
        Stage::Waiting => view! { <div class="card"><p>{format!("Waiting: {name}")}</p></div> }.into_any(),
        Stage::Checking => {
            view! { <div class="card"><p role="status">{format!("Checking {name} …")}</p></div> }.into_any()
        }
        Stage::Sending(share) => {
            let percent = format!("{:.0}", share * 100.0);
            let width = format!("width: {percent}%");
            view! {
                <div class="card">
                    <p>{format!("Sending {name}")}</p>
                    <div class="progress" role="progressbar" aria-label="How much has been sent" aria-valuemin="0" aria-valuemax="100" aria-valuenow=percent>
                        <i style=width></i>
                    </div>
                    {contents(&found.read())}
                </div>
            }
            .into_any()
        }
        Stage::Storing => view! {
            <div class="card">
                <p role="status">{format!("Checking and storing {name} …")}</p>
                {contents(&found.read())}
            </div>
        }
        .into_any(),
        Stage::Stored(receipt) => view! { <ReceiptCard receipt=*receipt name /> }.into_any(),
        Stage::NotSent(why) => failure(format!("Not sent: {name}"), why),
        Stage::Refused(why) => failure(format!("Not stored: {name}"), why),
        Stage::Unanswered(why) => failure(format!("Perhaps not stored: {name}"), why),
    }
}

fn failure(heading: String, why: String) -> AnyView {
    view! {
        <div class="failure" role="alert">
            <strong>{heading}</strong>
            <p>{why}</p>
        </div>
    }
    .into_any()
}

#[component]
fn TermsCard(
    terms: Arc<Terms>,
    /// Whether the visitor has ticked the box.
    agrees: RwSignal<bool>,
) -> impl IntoView {
    let Terms { version, licence, text, asked, .. } = &*terms;
    // The first paragraph is the title, which is not repeated.
    let paragraphs: Vec<String> = text.split("\n\n").skip(1).map(|text| text.trim().to_owned()).collect();
    let stated = format!("What you send is published under {licence}. ");
    let agreement = asked.then(|| {
        view! {
            <label>
                <input
                    type="checkbox"
                    prop:checked=move || agrees.get()
                    on:change=move |event| agrees.set(event_target_checked(&event))
                />
                {format!(" I agree to the terms of contributing, version {version}")}
            </label>
        }
    });
    view! {
        <div class="card" data-testid="terms">
            <p>{stated}<a href="/terms" rel="external">"Terms of contributing"</a></p>
            <details>
                <summary>"Read them here"</summary>
                {paragraphs.into_iter().map(|text| view! { <p>{text}</p> }).collect_view()}
            </details>
            {agreement}
        </div>
    }
}

#[component]
fn ReceiptCard(
    receipt: Receipt,
    /// The name and size of the file that was sent.
    name: String,
) -> impl IntoView {
    let refused: u64 =
        receipt.hardware.iter().flat_map(|hardware| &hardware.set_apart).map(|part| part.timings).sum();
    let heading = match (receipt.already_stored, refused) {
        (true, _) => "Already stored: these very bytes had been sent before".to_owned(),
        (false, 0) => "Stored. Thank you!".to_owned(),
        (false, refused) => {
            format!("Stored, but for {} that cannot be true", format::counted(refused, "timing"))
        }
    };
    let hardware = receipt.hardware.iter().map(|hardware| {
        let contents = counted(hardware.problems, hardware.timings, hardware.failures);
        view! {
            <dt><a href=format!("/hardware/{}", hardware.slug)>{hardware.name.clone()}</a></dt>
            <dd>{contents}</dd>
        }
    });
    let apart = receipt.hardware.iter().flat_map(|hardware| set_apart(&hardware.set_apart));
    let (new, known) = (format::count(receipt.new_solutions), format::count(receipt.duplicate_solutions));
    let (solutions, received) = if receipt.already_stored {
        (
            vec![("Stored at the first upload", format!("{new} new solutions, {known} known already"))],
            "First received",
        )
    } else {
        (vec![("New solutions", new), ("Known already", known)], "Received")
    };
    let file = [("File", name), ("Format", receipt.format.clone())];
    let proof = [
        ("Receipt", receipt.id.to_string()),
        ("SHA-256", receipt.digest.to_string()),
        (received, format::minute(&receipt.received_at)),
        ("Licence", receipt.licence.to_string()),
    ];
    let rows = file.into_iter().chain(solutions).chain(proof);
    view! {
        <section class="card" role="status" data-testid="receipt">
            <h2 class:good-text=refused == 0>{heading}</h2>
            <dl class="facts">
                {hardware.collect_view()}
                {rows.map(|(name, value)| view! { <dt>{name}</dt><dd>{value}</dd> }).collect_view()}
            </dl>
            {apart.collect_view()}
        </section>
    }
}

/// The contents of a file that has been checked but not sent.
fn contents(all: &[Contents]) -> impl IntoView + use<> {
    let rows = all.iter().map(|of| {
        view! { <dt>{of.name.clone()}</dt><dd>{counted(of.problems, of.timings, of.failures)}</dd> }
    });
    view! {
        <dl class="facts" data-testid="contents">{rows.collect_view()}</dl>
        {all.iter().flat_map(|of| set_apart(&of.set_apart)).collect_view()}
    }
}

fn counted(problems: u64, timings: u64, failures: u64) -> String {
    let failures = match failures {
        0 => String::new(),
        failures => format!(", {}", format::counted(failures, "failed config")),
    };
    format!("{}, {}{failures}", format::counted(problems, "problem"), format::counted(timings, "timing"))
}

/// Which timings are not stored, and why.
fn set_apart(parts: &[SetApart]) -> Vec<AnyView> {
    let sentence = |part: &SetApart| {
        let timings = format::counted(part.timings, "timing");
        format!("{timings} set apart ({}): {}", part.reason, part.example)
    };
    parts.iter().map(|part| view! { <p class="hint">{sentence(part)}</p> }.into_any()).collect()
}
