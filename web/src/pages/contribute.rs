//! The page for contributing: choose files, see what was stored and who else measures.

mod queue;

use std::sync::Arc;

use diode_api::upload_check::Contents;
use diode_api::{HardwareSummary, Receipt, SetApart, Standing, Terms};
use diode_core::hardware::Hardware;
use leptos::ev::DragEvent;
use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use web_sys::{FileList, HtmlInputElement};

use crate::api::Failure;
use crate::components::{Loaded, Missing, Snippet, facts, page_head, use_title};
use crate::pages::contribute::queue::Fleet;
use crate::pages::contribute::queue::Queue;
use crate::pages::path_part;
use crate::query::{link, server_address};
use crate::remote::{Load, remote};
use crate::{api, format};

/// The state of a file.
#[derive(Clone)]
pub(crate) enum Stage {
    /// Other files are sent first.
    Waiting,
    /// The page checks the file. Nothing of it has been sent.
    Checking,
    /// The file has been checked, as far as the page can, and is sent once the reader says so.
    Ready,
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
    let queue = Queue::of_tab();
    let over = RwSignal::new(false);
    let terms = remote::<Terms>(|| Some("/terms".to_owned()));
    let agrees = RwSignal::new(false);
    let take = move |files: Option<FileList>| {
        for file in files.iter().flat_map(|files| (0..files.length()).filter_map(|index| files.get(index))) {
            queue.add(file);
        }
    };
    let in_force = move || terms.value();
    let may_send = Signal::derive(move || !in_force().is_some_and(|terms| terms.asked) || agrees.get());
    let send = Callback::new(move |number: Option<usize>| {
        let agreed = untrack(in_force).filter(|_| agrees.get_untracked()).map(|terms| terms.version);
        queue.release(number, agreed);
    });
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
                {page_head("/contribute")}
                <p class="hint">
                    <a href="/account/contributions" rel="external">"Your uploads, agents and records"</a> " · "
                    <a href="/account" rel="external">"Your account and tokens"</a>
                </p>
            </div>
            <div class="split even">
                <section class="card">
                    <h2>"1. Install diode"</h2>
                    <span class="hint">"In the folder with Diode's source code, with Rust:"</span>
                    <Snippet text="cargo install --path collector" />
                    <span class="hint">"Or with Python and pip, beside torch:"</span>
                    <Snippet text="pip install ." />
                    <p class="hint">
                        "No release is published yet: ask whoever runs this server for the source code, or for a program to copy. A node needs no CUDA toolkit. "
                        <a href="/docs/guides/installing.html" rel="external">"More ways"</a>
                    </p>
                </section>
                <section class="card" data-testid="agent">
                    <h2>"2. Let an agent measure"</h2>
                    <span class="hint">"It measures what this server lacks and sends it, for as long as you let it:"</span>
                    <Snippet text=format!("diode agent --server {server}") />
                    <p class="hint"><a href="/docs/guides/agents.html" rel="external">"How agents work"</a></p>
                    <details>
                        <summary>"Or measure once, and send the file"</summary>
                        <Commands />
                    </details>
                </section>
            </div>
            <section class="section" aria-labelledby="files-title">
                <h2 id="files-title">"Send files"</h2>
                <label
                    class="drop"
                    class:over=move || over.get()
                    on:dragover=move |event: DragEvent| { event.prevent_default(); over.set(true) }
                    on:dragleave=move |_| over.set(false)
                    on:drop=drop
                >
                    <strong>"Drop files here, or choose them"</strong>
                    <span class="hint">".msgpack.zst, .msgpack or .json, from diode or torch-diode. They are checked here; nothing is sent yet."</span>
                    <input class="visually-hidden" type="file" multiple on:change=choose />
                </label>
                <For
                    each=move || queue.entries().into_iter().rev()
                    key=|entry| entry.number
                    children=move |entry| {
                        move || view! {
                            <Outcome queue stage=entry.stage.get() number=entry.number name=entry.name.clone() found=entry.found may_send send />
                        }
                    }
                />
                {move || terms.value().map(|terms| view! { <TermsCard terms agrees /> })}
                {move || (queue.ready() > 1).then(|| view! {
                    <button type="button" class="button primary" disabled=move || !may_send.get() on:click=move |_| send.run(None)>
                        {format!("Send all {}", format::counted(queue.ready() as u64, "file"))}
                    </button>
                })}
            </section>
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
    queue: Queue,
    stage: Stage,
    number: usize,
    name: String,
    /// The contents of the file, once the page has checked it.
    found: RwSignal<Vec<Contents>>,
    /// Whether the visitor has agreed to what must be agreed to.
    may_send: Signal<bool>,
    send: Callback<Option<usize>>,
) -> impl IntoView {
    match stage {
        Stage::Ready => {
            let said = move || {
                let unchecked = found.with(Vec::is_empty).then_some("Only the server can check this file. ");
                let first = (!may_send.get()).then_some("To send it, agree to the terms below first.");
                format!("{}{}", unchecked.unwrap_or_default(), first.unwrap_or_default())
            };
            view! {
                <div class="card" data-testid="ready">
                    <p role="status"><strong>{format!("Checked: {name}")}</strong></p>
                    {contents(&found.read())}
                    {found.with(|all| all.iter().map(|of| view! { <Beside name=of.name.clone() /> }).collect_view())}
                    <p class="hint">{said}</p>
                    <div class="row">
                        <button type="button" class="button primary" disabled=move || !may_send.get() on:click=move |_| send.run(Some(number))>
                            "Send it"
                        </button>
                        {take_away(queue, number)}
                    </div>
                </div>
            }
            .into_any()
        }
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
        Stage::Stored(receipt) => {
            view! { <ReceiptCard receipt=*receipt name /> {take_away(queue, number)} }.into_any()
        }
        Stage::NotSent(why) => failure(queue, number, "Not sent", &name, &why),
        Stage::Refused(why) => failure(queue, number, "Not stored", &name, &why),
        Stage::Unanswered(why) => failure(queue, number, "Perhaps not stored", &name, &why),
    }
}

/// What the server has of the hardware that a file is about.
#[component]
fn Beside(name: String) -> impl IntoView {
    let slug = Hardware::from_name(&name).ok().map(|hardware| hardware.slug.to_string());
    let there = remote::<HardwareSummary>(move || Some(format!("/hardware/{}", slug.clone()?)));
    let said = move || match there.get() {
        Load::Ready(there) => format!(
            "Measured here so far on {name}: {}, {}.",
            format::counted(there.problems, "problem"),
            format::counted(there.timings, "timing")
        ),
        Load::Failed(Failure::NotFound(_)) => {
            format!("Nobody has sent timings of {name} to this server yet.")
        }
        Load::Waiting | Load::Failed(_) => String::new(),
    };
    view! { <p class="hint">{said}</p> }
}

fn failure(queue: Queue, number: usize, what: &str, name: &str, why: &str) -> AnyView {
    let said = sentence(why, name);
    // What stands between backticks is code.
    let pieces = said.split('`').enumerate().map(|(place, piece)| match place % 2 {
        1 => view! { <code>{piece.to_owned()}</code> }.into_any(),
        _ => piece.to_owned().into_any(),
    });
    view! {
        <div class="failure" role="alert">
            <strong>{format!("{what}: {name}")}</strong>
            <p>{pieces.collect_view()}</p>
            {take_away(queue, number)}
        </div>
    }
    .into_any()
}

fn take_away(queue: Queue, number: usize) -> AnyView {
    view! { <button type="button" class="button small" on:click=move |_| queue.take_away(number)>"Remove from this list"</button> }
        .into_any()
}

/// Why a file was refused, as a sentence about this file. `name` begins with the file's name.
fn sentence(why: &str, name: &str) -> String {
    let file = name.rsplit_once(", ").map_or(name, |(file, _)| file);
    let why = why
        .replace("convert IT ", &format!("convert {file} "))
        .replace("convert IN ", &format!("convert {file} "));
    let cut = if why.starts_with("truncated") { "The file is cut off: " } else { "" };
    let why = format!("{cut}{why}");
    let (first, rest) = why.split_at(why.chars().next().map_or(0, char::len_utf8));
    let end = if rest.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{}{rest}{end}", first.to_uppercase())
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
    let counts = match (receipt.already_stored, receipt.standing, &receipt.contributor) {
        (true, ..) => "",
        (_, Standing::Counts, None) => {
            "It counts at once; boards show it within a minute. Keep the address of its page: without an account, it is the only way back to it."
        }
        (_, Standing::Counts, Some(_)) => "It counts at once; boards show it within a minute.",
        _ => "It does not count yet: its page says why.",
    };
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
            <p>{counts} " " <a href=format!("/uploads/{}", receipt.id)>"The page of this upload"</a></p>
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

/// The page of one upload: what it has, how it compares, and its file.
#[component]
pub(crate) fn UploadPage() -> impl IntoView {
    let id = path_part("id");
    let receipt = remote::<Receipt>(move || Some(format!("/uploads/{}", id.get())));
    use_title(move || format!("Upload {}", id.get()));
    let missing = || {
        let sentence = "The address may be wrong, or the upload was deleted.".to_owned();
        view! {
            <Missing heading="There is no such upload" sentence>
                <a class="button" href="/">"Overview"</a>
            </Missing>
        }
    };
    view! {
        <main class="page">
            <Loaded remote=receipt height="30rem" missing children=|receipt| upload_view(&receipt) />
        </main>
    }
}

fn upload_view(receipt: &Receipt) -> impl IntoView + use<> {
    let id = receipt.id.to_string();
    let by = receipt
        .contributor
        .as_ref()
        .map_or_else(|| "without an account".to_owned(), |name| format!("by {name}"));
    let standing = match (receipt.standing, &receipt.reason) {
        (Standing::Counts, _) => "It counts on the boards.".to_owned(),
        (Standing::Fenced, _) => {
            "It does not count, because its times are far from those of others.".to_owned()
        }
        (Standing::Quarantined, Some(reason)) => format!("It does not count: {reason}."),
        (Standing::Quarantined, None) => "It does not count.".to_owned(),
    };
    let compared = match receipt.log_ratio {
        Some(ratio) => format!(
            "Its times are {:.1} % {} than those of others, the median of {}.",
            (ratio.exp() - 1.0).abs() * 100.0,
            if ratio < 0.0 { "shorter" } else { "longer" },
            format::counted(receipt.compared_problems, "problem")
        ),
        None => "Too few others have measured the same problems to compare its times.".to_owned(),
    };
    let parts = receipt.hardware.iter().map(|own| {
        let stated = [
            ("Measured with", own.tool.clone()),
            ("Driver", own.driver.clone()),
            ("Collected", own.collected_at.as_deref().map(format::minute)),
        ];
        let stored = ("Stored", counted(own.problems, own.timings, own.failures));
        let rows = std::iter::once(stored)
            .chain(stated.into_iter().filter_map(|(name, value)| Some((name, value?))));
        view! {
            <section class="card">
                <h2><a href=format!("/hardware/{}", own.slug)>{own.name.clone()}</a></h2>
                {facts(rows)}
                {set_apart(&own.set_apart)}
            </section>
        }
    });
    let file = [
        ("Size", format::bytes(receipt.bytes)),
        ("Format", receipt.format.clone()),
        ("SHA-256", receipt.digest.to_string()),
        ("Licence", receipt.licence.to_string()),
    ];
    let compare = link("/compare", [("what", "uploads".to_owned()), ("a", id.clone())]);
    view! {
        <div class="page-head">
            <div>
                <h1>"Upload " <code>{id.clone()}</code></h1>
                <p class="lede">{format!("Sent {by}, {}. {standing}", format::minute(&receipt.received_at))}</p>
                <p class="hint">{compared}</p>
            </div>
            <a class="button" href=compare>"Compare with another upload"</a>
        </div>
        <div class="split even">
            <div class="section">{parts.collect_view()}</div>
            <section class="card">
                <h2>"The file"</h2>
                {facts(file)}
                <p><a class="button" href=api::url(&format!("/uploads/{id}/download")) rel="external" download>"Download"</a></p>
            </section>
        </div>
    }
}

#[cfg(test)]
mod tests {
    use super::sentence;

    #[test]
    fn a_refusal_is_a_sentence_about_the_file() {
        let said = sentence("got CSV; convert it: `diode convert IT my.msgpack.zst`", "a, b.csv, 15 B");
        assert_eq!(said, "Got CSV; convert it: `diode convert a, b.csv my.msgpack.zst`.");
        assert_eq!(
            sentence("truncated JSON at line 1", "x.json, 2 B"),
            "The file is cut off: truncated JSON at line 1."
        );
    }
}
