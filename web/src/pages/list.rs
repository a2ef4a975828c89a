//! Predictions for a list of shapes. They are computed in the browser and can be saved as a file.

mod log;
mod results;
mod shapes;

use std::cell::RefCell;
use std::sync::Arc;

use diode_api::{ModelState, ModelSummary};
use diode_core::{Bias, DType, Epilogue, Layout, Op};
use diode_model::epilogue::uncounted;
use diode_worker::{Line, Row};
use js_sys::futures::JsFuture;
use js_sys::{Array, Uint8Array};
use leptos::prelude::*;
use leptos::task::spawn_local;
use wasm_bindgen::{JsCast as _, JsValue};
use web_sys::HtmlInputElement;

use crate::components::{FailedLoad, Loaded, chips, page_head, select, unnamed};
use crate::format;
use crate::pages::list::results::Results;
use crate::pages::list::shapes::parse;
use crate::pages::models::NoModels;
use crate::pages::predict::{DTYPES, epilogues, float32, model_choice, on_hardware};
use crate::query::remembered_hardware;
use crate::remote::{Downloaded, Load, remote, remote_model};
use crate::scheduler::Worker;

pub(crate) use crate::pages::list::shapes::{Defaults, one_shape, shape_of_kind};

/// The most lines of a list. More would take long, and nobody reads so long a table.
const MOST_LINES: usize = 20_000;

const EXAMPLE: &str =
    "1x28672x4096\n16x4096x14336 fp16\n2048x14336x4096 addmm column vector\n8x512x512x64 bmm";

thread_local! {
    /// A list that was pasted on another page. It is too long for an address.
    static PASTED: RefCell<String> = RefCell::default();
}

/// Keeps a pasted list. The page of lists, once opened, ranks it.
pub(crate) fn keep_pasted(list: String) {
    PASTED.set(list);
}

#[component]
pub(crate) fn ListPage() -> impl IntoView {
    let models = remote::<Vec<ModelSummary>>(|| Some("/models?model_type=ranking".to_owned()));
    view! {
        <main class="page">
            <div>
                <p class="crumbs"><a href="/predict">"Predict"</a> " / a list"</p>
                {page_head("/predict/list")}
            </div>
            <Loaded remote=models height="34rem" children=move |models| view! { <List models /> } />
        </main>
    }
}

/// The list and the choices of the reader.
#[derive(Clone, Copy)]
struct Chosen {
    text: RwSignal<String>,
    model: RwSignal<String>,
    op: RwSignal<String>,
    dtype: RwSignal<String>,
    b_layout: RwSignal<String>,
    bias: RwSignal<String>,
    /// Not empty if float32 may be rounded to TF32.
    tf32: RwSignal<String>,
    epilogue: RwSignal<String>,
}

impl Chosen {
    fn defaults(self) -> Defaults {
        // The chips offer valid values only, so the fallbacks are never used.
        Defaults {
            op: self.op.get().parse().unwrap_or(Op::Mm),
            dtype: self.dtype.get().parse().unwrap_or(DType::BFloat16),
            b_layout: self.b_layout.get().parse().unwrap_or(Layout::Row),
            bias: self.bias.get().parse().unwrap_or(Bias::Vector),
        }
    }

    fn epilogue(self) -> Epilogue {
        self.epilogue.with(|name| name.parse()).unwrap_or(Epilogue::None)
    }
}

#[component]
fn List(models: Arc<Vec<ModelSummary>>) -> impl IntoView {
    if models.is_empty() {
        return view! { <NoModels hardware=remote(|| Some("/hardware".to_owned())) /> }.into_any();
    }
    let text = |value: &str| RwSignal::new(value.to_owned());
    let pasted = PASTED.take();
    // The hardware that the list names, else the one that the reader looked at last.
    let named = pasted.lines().find_map(|line| on_hardware(line).1).map(|one| one.slug.to_string());
    let wanted = named.or_else(remembered_hardware);
    let is_wanted = |model: &ModelSummary| wanted.as_deref() == Some(model.hardware.as_str());
    let best = models
        .iter()
        .max_by_key(|model| (model.state == ModelState::Published, is_wanted(model), model.training_timings))
        .map(|model| model.id.to_string());
    let is_pasted = StoredValue::new(!pasted.is_empty());
    let chosen = Chosen {
        text: RwSignal::new(pasted),
        model: RwSignal::new(best.unwrap_or_default()),
        op: text("mm"),
        dtype: text(DTYPES[0].as_str()),
        b_layout: text("row"),
        bias: text("vector"),
        tf32: text(""),
        epilogue: text(Epilogue::None.as_str()),
    };
    let list = ListRun::new();
    // Rows belong to the model that made them, so another model clears them.
    Effect::new(move |before: Option<String>| {
        let id = chosen.model.get();
        if before.is_some_and(|before| before != id) {
            list.clear();
        }
        id
    });
    let summary = {
        let models = Arc::clone(&models);
        Memo::new(move |_| {
            chosen.model.with(|id| models.iter().find(|model| model.id.as_str() == id).cloned())
        })
    };
    let model = remote_model(move || summary.get().map(|model| model.id.to_string()));
    let lines = Memo::new(move |_| chosen.text.with(|text| parse(text, chosen.defaults())));
    let start = move |_| {
        let Load::Ready(model) = model.get() else { return };
        let (tf32, epilogue) = untrack(|| (!chosen.tf32.with(String::is_empty), chosen.epilogue()));
        list.begin(&model, lines.get_untracked(), tf32, epilogue);
    };
    let refusal = move || match (lines.with(Vec::len), model.get()) {
        (0, _) => Some("Paste or choose shapes first.".to_owned()),
        (count, _) if count > MOST_LINES => Some(format!(
            "The list has {}; at most {} are ranked at a time.",
            format::counted(count as u64, "shape"),
            format::count(MOST_LINES as u64)
        )),
        (_, Load::Waiting) => Some("The model is on its way.".to_owned()),
        _ => None,
    };
    // A list that another page passed on is complete, so it is ranked as soon as the model is there.
    Effect::new(move |_| {
        if refusal().is_none() && is_pasted.get_value() && model.value().is_some() {
            is_pasted.set_value(false);
            start(());
        }
    });
    let uncounted = move || {
        let model = model.value()?;
        let first = lines.with(|lines| lines.iter().find_map(|line| line.problem.clone().ok()))?;
        uncounted(chosen.epilogue(), &model.metadata().hardware, &first)
    };
    let failed = move || match model.get() {
        Load::Failed(reason) => Some(view! { <FailedLoad reason retry=move || model.retry() /> }),
        _ => None,
    };
    view! {
        <div class="split form-first">
            <form class="card" aria-label="List" on:submit=move |event| { event.prevent_default(); start(()) }>
                <ShapesField text=chosen.text />
                <Choices chosen models />
                <button type="submit" class="button primary" prop:disabled=move || refusal().is_some()>
                    {move || format!("Predict {}", format::counted(lines.with(Vec::len) as u64, "shape"))}
                </button>
                <p class="hint" role="status">{refusal}</p>
                <p class="hint" role="note">{uncounted}</p>
            </form>
            <div class="section">
                {failed}
                {move || list.failed.get().then(cannot_rank)}
                {move || summary.get().zip(model.value()).map(|(summary, model)| {
                    let hardware = model.metadata().hardware.clone();
                    view! { <Results list summary hardware /> }
                })}
            </div>
        </div>
    }
    .into_any()
}

fn cannot_rank() -> impl IntoView {
    view! {
        <div class="failure" role="alert" data-testid="cannot-rank">
            <strong>"The list cannot be ranked"</strong>
            <p>
                "Your browser could not start the program that ranks lists. Press Predict again. If that does not help: \
                 keep a copy of your list and load this page again, since the server may have a newer version of it, and \
                 allow web workers for this page. Without a browser, "<code>"diode predict --list"</code>" ranks a list, too."
            </p>
        </div>
    }
}

/// A field for shapes, which the reader pastes, types or reads from a file.
#[component]
fn ShapesField(text: RwSignal<String>) -> impl IntoView {
    let choose = move |event: leptos::ev::Event| {
        let input = event.target().and_then(|target| target.dyn_into::<HtmlInputElement>().ok());
        let Some(input) = input else { return };
        let file = input.files().and_then(|files| files.get(0));
        // Empties the field, so that the same file can be chosen again after a change.
        input.set_value("");
        let Some(file) = file else { return };
        spawn_local(async move {
            // If the file is no text, the field stays as it is.
            if let Ok(read) = JsFuture::from(file.text()).await
                && let Some(read) = read.as_string()
            {
                text.try_set(read);
            }
        });
    };
    view! {
        <div class="field">
            <label for="shapes">"Shapes, one per line; CSV with columns m, n, k; a log of Inductor; or what torch_diode.record() wrote"</label>
            <textarea
                id="shapes"
                class="mono"
                rows="10"
                spellcheck="false"
                placeholder=EXAMPLE
                prop:value=move || text.get()
                on:input=move |event| text.set(event_target_value(&event))
            ></textarea>
        </div>
        <div class="row">
            <label class="button small">
                "From a file"
                <input class="visually-hidden" type="file" accept=".csv,.tsv,.txt,.log,.json,text/*,application/json" on:change=choose />
            </label>
            <button type="button" class="button small" on:click=move |_| text.set(EXAMPLE.to_owned())>"An example"</button>
        </div>
    }
}

/// The model, and the defaults for whatever a line leaves out.
#[component]
fn Choices(chosen: Chosen, models: Arc<Vec<ModelSummary>>) -> impl IntoView {
    view! {
        <p class="hint">"Where a line does not say it:"</p>
        {chips("Op", unnamed(Op::ALL), chosen.op)}
        {chips("Dtype", unnamed(DTYPES), chosen.dtype)}
        {chips("Layout of B", unnamed(Layout::ALL), chosen.b_layout)}
        {chips("Bias", unnamed([Bias::Vector, Bias::Matrix]), chosen.bias)}
        {chips("Float32 is computed", float32(), chosen.tf32)}
        {select("Epilogue", epilogues(), chosen.epilogue)}
        {select("Model", models.iter().map(model_choice).collect(), chosen.model)}
    }
}

/// The number of lines that are ranked together. The page adds their rows in one turn, which must be short.
const PORTION: usize = 32;
/// The number of portions that the worker has at a time. The worker ranks one while the page adds the rows
/// of the other.
const AHEAD: usize = 2;

#[derive(Clone, Copy)]
struct ListRun {
    rows: RwSignal<Vec<Row>>,
    /// The number of rows when the list is done.
    total: RwSignal<usize>,
    /// The number of the current list. It tells rows of an older list from those of the current one.
    run: RwSignal<u32>,
    /// Whether the list ended before its last line.
    stopped: RwSignal<bool>,
    /// Whether the worker could not be started, or failed.
    failed: RwSignal<bool>,
    /// The worker. It ends when the reader leaves the page.
    worker: StoredValue<Option<Worker>, LocalStorage>,
    /// The lines that the worker has not got yet.
    waiting: StoredValue<std::vec::IntoIter<Line>>,
    /// The number of portions that the worker has.
    asked: StoredValue<usize>,
}

impl ListRun {
    /// Starts without a list. The worker starts now, so that its program is loaded even if the network
    /// fails later.
    fn new() -> Self {
        let list = Self {
            rows: RwSignal::new(Vec::new()),
            total: RwSignal::new(0),
            run: RwSignal::new(0),
            stopped: RwSignal::new(false),
            failed: RwSignal::new(false),
            worker: StoredValue::new_local(None),
            waiting: StoredValue::new(Vec::new().into_iter()),
            asked: StoredValue::new(0),
        };
        list.start_worker();
        list
    }

    /// Starts a list. This ends the previous list.
    fn begin(self, model: &Downloaded, lines: Vec<Line>, tf32: bool, epilogue: Epilogue) {
        self.clear();
        self.total.set(lines.len());
        self.waiting.set_value(lines.into_iter());
        let model = Uint8Array::from(model.file.as_slice());
        self.tell(&Array::of3(&model.into(), &tf32.into(), &epilogue.as_str().into()));
        (0..AHEAD).for_each(|_| self.tell_more());
    }

    /// Ends the list and keeps its rows.
    fn stop(self) {
        self.stopped.set(true);
        self.free_worker();
    }

    /// Ends the list and forgets its rows.
    fn clear(self) {
        self.run.update(|run| *run += 1);
        self.rows.set(Vec::new());
        self.total.set(0);
        self.stopped.set(false);
        self.failed.set(false);
        self.free_worker();
    }

    /// Replaces the worker if it is busy or has failed.
    fn free_worker(self) {
        if self.asked.get_value() > 0 || self.worker.with_value(Option::is_none) {
            self.start_worker();
        }
    }

    fn start_worker(self) {
        self.asked.set_value(0);
        let worker = Worker::start(move |said| match said {
            Some(json) => self.arrive(&json),
            None => self.fail(),
        });
        match worker {
            Ok(worker) => self.worker.set_value(Some(worker)),
            Err(_) => self.fail(),
        }
    }

    fn tell(self, what: &JsValue) {
        let was_told =
            |worker: &Option<Worker>| worker.as_ref().is_some_and(|worker| worker.tell(what).is_ok());
        if !self.worker.with_value(was_told) {
            self.fail();
        }
    }

    /// Sends the worker the next lines, if there are any.
    fn tell_more(self) {
        let portion = self.waiting.try_update_value(|waiting| waiting.take(PORTION).collect::<Vec<_>>());
        let Some(portion) = portion.filter(|portion| !portion.is_empty()) else { return };
        let Ok(json) = serde_json::to_string(&portion) else { return self.fail() };
        self.asked.update_value(|asked| *asked += 1);
        self.tell(&json.into());
    }

    fn arrive(self, json: &str) {
        let Ok(rows) = serde_json::from_str::<Vec<Row>>(json) else { return self.fail() };
        self.asked.update_value(|asked| *asked -= 1);
        self.tell_more();
        self.rows.update(|all| all.extend(rows));
    }

    fn fail(self) {
        self.worker.set_value(None);
        self.failed.set(true);
        self.stopped.set(true);
    }
}
