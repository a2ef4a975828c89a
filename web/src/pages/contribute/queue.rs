//! Files that are checked one after the other and, once the reader says so, sent one after the other. If one fails, the
//! others are still sent. Below them, the agents of
//! this server, and what each has measured lately.

use std::cell::OnceCell;
use std::collections::VecDeque;

use diode_api::upload_check::{Contents, too_large};
use diode_api::{Agent, AgentDetail, LeaseSummary, MAX_UPLOAD_BYTES, Receipt, TERMS_HEADER};
use diode_core::ids::AgentId;
use leptos::prelude::*;
use wasm_bindgen::JsValue;
use web_sys::File;

use crate::components::{Loaded, empty, head, num, table, tag_row};
use crate::files::Transfer;
use crate::pages::contribute::Stage;
use crate::remote::remote;
use crate::scheduler::{Worker, defer};
use crate::{api, cache, format};

/// A file in the page's list.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) number: usize,
    /// The file's name and size.
    pub(super) name: String,
    pub(super) stage: RwSignal<Stage>,
    /// The contents of the file, once it has been checked.
    pub(super) found: RwSignal<Vec<Contents>>,
}

/// A file that waits to be checked, then for the reader's word, then to be sent with the version of the terms that the
/// visitor agrees to.
#[derive(Clone)]
struct Waiting {
    number: usize,
    file: File,
    agreed: Option<u32>,
    stage: RwSignal<Stage>,
    found: RwSignal<Vec<Contents>>,
}

#[derive(Clone, Copy)]
pub(super) struct Queue {
    entries: RwSignal<Vec<Entry>>,
    waiting: StoredValue<VecDeque<Waiting>, LocalStorage>,
    /// The files that are checked, and those that are to be sent.
    ready: StoredValue<Vec<Waiting>, LocalStorage>,
    released: StoredValue<VecDeque<Waiting>, LocalStorage>,
    /// The check and the upload under way.
    check: StoredValue<Option<Worker>, LocalStorage>,
    upload: StoredValue<Option<Transfer>, LocalStorage>,
    is_checking: StoredValue<bool>,
    is_sending: StoredValue<bool>,
    added: StoredValue<usize>,
}

impl Queue {
    /// The queue of this tab. It goes on while the reader looks at other pages.
    pub(super) fn of_tab() -> Self {
        thread_local! {
            static QUEUE: OnceCell<Queue> = const { OnceCell::new() };
        }
        QUEUE.with(|queue| *queue.get_or_init(|| of_app(Self::new)))
    }

    fn new() -> Self {
        Self {
            entries: RwSignal::new(Vec::new()),
            waiting: StoredValue::new_local(VecDeque::new()),
            ready: StoredValue::new_local(Vec::new()),
            released: StoredValue::new_local(VecDeque::new()),
            check: StoredValue::new_local(None),
            upload: StoredValue::new_local(None),
            is_checking: StoredValue::new(false),
            is_sending: StoredValue::new(false),
            added: StoredValue::new(0),
        }
    }

    /// All files, in the order in which they were added. Tracked: the caller runs again after a change.
    pub(super) fn entries(self) -> Vec<Entry> {
        self.entries.get()
    }

    /// How many files wait for the reader's word. Tracked.
    pub(super) fn ready(self) -> usize {
        self.entries.with(|entries| {
            entries.iter().filter(|entry| matches!(*entry.stage.read(), Stage::Ready)).count()
        })
    }

    /// Lists a file and queues it for its check. A file with a fault is listed, and cannot be sent.
    pub(super) fn add(self, file: File) {
        let name = format!("{}, {}", file.name(), format::bytes(file.size() as u64));
        let first = match file.size() {
            0.0 => Stage::NotSent("the file is empty; choose one with timings".to_owned()),
            size if size > MAX_UPLOAD_BYTES as f64 => Stage::NotSent(too_large()),
            _ => Stage::Waiting,
        };
        let is_good = matches!(first, Stage::Waiting);
        self.added.update_value(|added| *added += 1);
        let number = self.added.get_value();
        let (stage, found) = of_app(|| (RwSignal::new(first), RwSignal::new(Vec::new())));
        self.entries.update(|entries| {
            // A second try replaces the first one that failed or was not sent.
            entries.retain(|entry| {
                let is_left =
                    entry.stage.with_untracked(|stage| stage.has_failed() || matches!(stage, Stage::Ready));
                entry.name != name || !is_left
            });
            entries.push(Entry { number, name, stage, found });
        });
        self.forget_unlisted();
        if is_good {
            let next = Waiting { number, file, agreed: None, stage, found };
            self.waiting.update_value(|waiting| waiting.push_back(next));
            self.check_next();
        }
    }

    /// Takes a file out of the list. It is not sent, unless it was.
    pub(super) fn take_away(self, number: usize) {
        self.entries.update(|entries| entries.retain(|entry| entry.number != number));
        self.forget_unlisted();
    }

    /// What the list no longer shows is not sent.
    fn forget_unlisted(self) {
        let listed: Vec<usize> =
            self.entries.with_untracked(|entries| entries.iter().map(|entry| entry.number).collect());
        self.ready.update_value(|ready| ready.retain(|one| listed.contains(&one.number)));
    }

    fn check_next(self) {
        if self.is_checking.get_value() {
            return;
        }
        let next = self.waiting.try_update_value(VecDeque::pop_front).flatten();
        let Some(next) = next else { return };
        self.is_checking.set_value(true);
        next.stage.set(Stage::Checking);
        let checked = {
            let next = next.clone();
            move |found| {
                let next = next.clone();
                // Postponed, because this drops the worker, which is still reporting.
                defer(move || self.keep_if_good(next, found));
            }
        };
        match check(&next.file, checked) {
            Ok(check) => self.check.set_value(Some(check)),
            Err(_) => self.keep(next),
        }
    }

    /// Keeps a file for the reader's word unless the check found a fault. A file that cannot be checked here is kept: the
    /// server checks everything.
    fn keep_if_good(self, next: Waiting, found: Found) {
        // The worker may have failed after its answer.
        let Some(check) = self.check.try_update_value(Option::take).flatten() else { return };
        drop(check);
        match found {
            Some(Err(why)) => {
                next.stage.set(Stage::NotSent(why));
                self.is_checking.set_value(false);
                self.check_next();
            }
            Some(Ok(contents)) => {
                next.found.set(contents);
                self.keep(next);
            }
            None => self.keep(next),
        }
    }

    fn keep(self, next: Waiting) {
        next.stage.set(Stage::Ready);
        self.ready.update_value(|ready| ready.push(next));
        self.is_checking.set_value(false);
        self.check_next();
    }

    /// Sends one of the files that are ready, or all of them.
    pub(super) fn release(self, number: Option<usize>, agreed: Option<u32>) {
        let ready = self.ready.try_update_value(std::mem::take).unwrap_or_default();
        let (sent, kept): (Vec<_>, Vec<_>) =
            ready.into_iter().partition(|one| number.is_none_or(|number| number == one.number));
        self.ready.set_value(kept);
        for one in sent {
            one.stage.set(Stage::Waiting);
            self.released.update_value(|released| released.push_back(Waiting { agreed, ..one }));
        }
        self.send_next();
    }

    fn send_next(self) {
        if self.is_sending.get_value() {
            return;
        }
        let Some(next) = self.released.try_update_value(VecDeque::pop_front).flatten() else { return };
        self.is_sending.set_value(true);
        let stage = next.stage;
        self.upload.set_value(send(&next.file, next.agreed, move |next| self.report(stage, next)));
    }

    fn report(self, stage: RwSignal<Stage>, next: Stage) {
        if matches!(next, Stage::Stored(_)) {
            cache::clear();
        }
        let is_over = next.is_over();
        stage.set(next);
        if is_over {
            self.is_sending.set_value(false);
            // Postponed, because the next upload drops this one, which is still reporting.
            defer(move || self.send_next());
        }
    }
}

/// Runs a function so that what it makes lasts as long as the app. What is made in a page, or in an event of it,
/// would end with the page. Must be called from one of the two.
fn of_app<T>(make: impl FnOnce() -> T) -> T {
    let mut owner = Owner::new();
    while let Some(parent) = owner.parent() {
        owner = parent;
    }
    owner.with(make)
}

/// The contents of a file, or why the server would refuse it. `None` if only the server can tell.
type Found = Option<Result<Vec<Contents>, String>>;

/// Starts the check and reports its result. Dropping the worker ends the check. Fails, and reports nothing, if the
/// browser has no workers.
fn check(file: &File, report: impl Fn(Found) + 'static) -> Result<Worker, JsValue> {
    let worker = Worker::start(move |said| {
        report(said.and_then(|json| serde_json::from_str(&json).ok()).flatten());
    })?;
    worker.tell(file)?;
    Ok(worker)
}

/// Starts an upload and reports every stage. Returns `None` if the browser refuses; this is reported, too.
///
/// `agreed` is the version of the terms that the visitor agrees to.
fn send(file: &File, agreed: Option<u32>, report: impl Fn(Stage) + Copy + 'static) -> Option<Transfer> {
    match start(file, agreed, report) {
        Ok(upload) => {
            report(Stage::Sending(0.0));
            Some(upload)
        }
        Err(error) => {
            report(Stage::Refused(format!("the browser could not send it: {error:?}")));
            None
        }
    }
}

fn start(
    file: &File,
    agreed: Option<u32>,
    report: impl Fn(Stage) + Copy + 'static,
) -> Result<Transfer, JsValue> {
    let mut transfer = Transfer::new("POST", &api::url("/uploads"))?;
    let request = transfer.request.clone();
    request.set_request_header("content-type", "application/octet-stream")?;
    if let Some(version) = agreed {
        request.set_request_header(TERMS_HEADER, &version.to_string())?;
    }
    let upload = request.upload()?;
    transfer.on(
        |_, progress| upload.set_onprogress(progress),
        move |event| {
            if event.total() > 0.0 {
                report(Stage::Sending(event.loaded() / event.total()));
            }
        },
    );
    transfer.on(|_, sent| upload.set_onload(sent), move |_| report(Stage::Storing));
    let ended = request.clone();
    transfer.on(|request, end| request.set_onloadend(end), move |_| report(outcome(&ended)));
    request.send_with_opt_blob(Some(file))?;
    Ok(transfer)
}

/// The stage that follows from the server's answer.
fn outcome(request: &web_sys::XmlHttpRequest) -> Stage {
    let status = request.status().unwrap_or(0);
    let body = request.response_text().ok().flatten().unwrap_or_default();
    match status {
        0 => unanswered("the connection broke before the server had answered"),
        200..=299 => match serde_json::from_str::<Receipt>(&body) {
            Ok(receipt) => Stage::Stored(Box::new(receipt)),
            Err(error) => unanswered(&format!("the server's receipt could not be read: {error}")),
        },
        _ => Stage::Refused(api::refusal(status, &body).to_string()),
    }
}

fn unanswered(why: &str) -> Stage {
    Stage::Unanswered(format!("{why}; send it again: a file that is stored already is not stored twice"))
}

#[component]
pub(super) fn Fleet() -> impl IntoView {
    let agents = remote::<Vec<Agent>>(|| Some("/agents".to_owned())).renewed();
    let opened = RwSignal::new(None);
    view! {
        <section class="section" aria-labelledby="fleet-title" data-testid="fleet">
            <h2 id="fleet-title">"The fleet"</h2>
            <p class="hint">"The agents that were seen last, at most 200. This list follows them while the page is open."</p>
            <Loaded remote=agents height="10rem" children=move |all| agents_table(&all, opened) />
            {move || opened.get().map(|id| view! { <Doings id /> })}
        </section>
    }
}

fn agents_table(all: &[Agent], opened: RwSignal<Option<AgentId>>) -> AnyView {
    if all.is_empty() {
        return empty("No agent has measured for this server yet", "The line above starts the first one.");
    }
    let working = all.iter().filter(|agent| agent.lease.is_some()).count() as u64;
    let measured = all.iter().map(|agent| agent.measured).sum();
    let sums = format!(
        "{}, {} at work; {} measured",
        format::counted(all.len() as u64, "agent"),
        format::count(working),
        format::counted(measured, "problem")
    );
    view! {
        <p>{sums}</p>
        {table([
            head("Agent"), head("Hardware"), head("State"),
            num("Measured").why("Problems whose results have arrived"), head("Program").roomy(),
            num("Last seen"),
        ]).rows(all.iter().map(|agent| row(agent, opened)).collect_view())}
    }
    .into_any()
}

fn row(agent: &Agent, opened: RwSignal<Option<AgentId>>) -> impl IntoView + use<> {
    let id = agent.id.clone();
    let is_open = {
        let id = id.clone();
        move || opened.with(|opened| opened.as_ref() == Some(&id))
    };
    let expanded = is_open.clone();
    let toggle = move |_| opened.set((!is_open()).then(|| id.clone()));
    let name = format!("{}{}", agent.name, if agent.simulated { " (simulated)" } else { "" });
    view! {
        <tr>
            <td>
                <button type="button" class="chip" aria-expanded=move || expanded().to_string() on:click=toggle>{name}</button>
            </td>
            <td><a href=format!("/hardware/{}?board=coverage", agent.hardware)>{agent.hardware.to_string()}</a></td>
            <td>{state(agent)}</td>
            <td class="num">{format::count(agent.measured)}</td>
            <td class="roomy">{agent.tool.clone()}</td>
            <td class="num">{format::minute(&agent.seen_at)}</td>
        </tr>
    }
}

fn state(agent: &Agent) -> String {
    match (&agent.put_aside, &agent.lease) {
        (Some(reason), _) => format!("put aside: {reason}"),
        (None, Some(_)) => "at work".to_owned(),
        (None, None) => "no work taken".to_owned(),
    }
}

/// What an agent can measure, and its newest leases.
#[component]
fn Doings(id: AgentId) -> impl IntoView {
    let detail = remote::<AgentDetail>(move || Some(format!("/agents/{id}")));
    view! { <Loaded remote=detail height="14rem" children=|detail| doings(&detail) /> }
}

fn doings(detail: &AgentDetail) -> impl IntoView + use<> {
    let AgentDetail { agent, ability, node, leases } = detail;
    let rows = if ability.unaligned { "any rows" } else { "aligned rows only" };
    let ops = ability.ops.iter().map(ToString::to_string);
    let dtypes = ability.dtypes.iter().map(ToString::to_string);
    let tags = ops.chain(dtypes).chain([rows.to_owned()]);
    let facts = node.iter().map(|(name, value)| format!("{name} {value}"));
    let tags = tags.chain(facts);
    let leases = if leases.is_empty() {
        view! { <p class="hint">"It has taken no work yet."</p> }.into_any()
    } else {
        view! {
            {table([
                head("Lease"), head("State"), num("Measured"),
                num("Expected").roomy().why("What the server expected it to take"), num("Taken"),
                num("Ended").roomy(),
            ]).rows(leases.iter().map(lease).collect_view())}
        }
        .into_any()
    };
    view! {
        <div class="card" data-testid="doings">
            <h3>{format!("What {} has done lately", agent.name)}</h3>
            {tag_row(tags)}
            {leases}
        </div>
    }
}

fn lease(lease: &LeaseSummary) -> impl IntoView + use<> {
    let measured = format!("{} of {}", format::count(lease.measured), format::count(lease.problems));
    let ended = lease.ended_at.as_deref().map_or_else(|| "–".to_owned(), format::minute);
    view! {
        <tr>
            <td><code>{lease.id.to_string()}</code></td>
            <td>{lease.state.to_string()}</td>
            <td class="num">{measured}</td>
            <td class="num roomy">{format::time(lease.seconds * 1e6)}</td>
            <td class="num">{format::minute(&lease.taken_at)}</td>
            <td class="num roomy">{ended}</td>
        </tr>
    }
}
