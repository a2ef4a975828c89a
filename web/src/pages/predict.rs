//! Predictions for a shape while the reader types it. The model is fetched once, the browser ranks, and the
//! address has the state.

mod answer;
mod fields;
mod further;

use std::sync::Arc;

use diode_api::{ModelSummary, NearestProblem};
use diode_core::hardware::{Hardware, find};
use diode_core::problem::{ProblemWords, whole};
use diode_core::{Bias, DType, Epilogue, Field, Invalid, Layout, Op, Problem, ProblemFields, Scaling, Stage};
use leptos::ev::Event;
use leptos::prelude::*;
use leptos_router::hooks::use_query_map;

use crate::components::{
    Chips, Choice, Deferred, Everywhere, FailedLoad, Loaded, Nearest, NearestProblems, Select, Skeleton,
    chips, empty, is_pasted, named, nearest_path, page_heading, select, unnamed, use_title,
};
use crate::format;
use crate::pages::is_wide;
use crate::pages::models::NoModels;
use crate::pages::predict::answer::Answer;
use crate::pages::predict::fields::Fields;
use crate::pages::predict::further::Further;
use crate::query::{remember_hardware, remembered_hardware};
use crate::remote::{Load, remote, remote_model};

pub(crate) use crate::pages::predict::fields::{
    DTYPES, NARROW, SHAPE, flags, has_a_form, problem_of, shape_of,
};
pub(crate) use crate::pages::predict::further::{About, further_view};

#[component]
pub(crate) fn PredictPage() -> impl IntoView {
    let fields = Fields::from_address();
    use_title(move || {
        format!("Predict {}", fields.problem().map_or_else(|_| "a shape".to_owned(), |p| p.dims()))
    });
    let models = remote::<Vec<ModelSummary>>(|| Some("/models?model_type=ranking".to_owned()));
    view! {
        <main class="page">
            <div class="page-head">
                {page_heading("/predict")}
                <a class="button" href="/predict/list">"Predict a list"</a>
            </div>
            <Loaded remote=models height="34rem" children=move |models| view! { <FormAndAnswer fields models /> } />
        </main>
    }
}

/// The model that the address names by id, or the best model of the hardware that it names or that the reader looked at last,
/// or the best model of all.
fn chosen(fields: Fields, models: &[ModelSummary]) -> Result<ModelSummary, String> {
    let (id, hardware) = (fields.model.get(), fields.hardware.get());
    if !id.is_empty() {
        let found = models.iter().find(|model| model.id.as_str() == id);
        return found.cloned().ok_or_else(|| format!("There is no model {id}."));
    }
    let most =
        || models.iter().max_by_key(|model| model.training_timings).map(|model| model.hardware.clone());
    let slug = match hardware.as_str() {
        "" => {
            let last = remembered_hardware().and_then(|slug| slug.parse().ok());
            last.filter(|slug| ModelSummary::best_for(models, slug).is_some()).or_else(most)
        }
        slug => Some(slug.parse().map_err(|error| format!("{error}."))?),
    };
    let best = slug.and_then(|slug| ModelSummary::best_for(models, &slug));
    best.cloned().ok_or_else(|| format!("There is no model for {hardware} yet."))
}

#[component]
fn FormAndAnswer(fields: Fields, models: Arc<Vec<ModelSummary>>) -> impl IntoView {
    if models.is_empty() {
        return view! { <NoModels hardware=remote(|| Some("/hardware".to_owned())) /> }.into_any();
    }
    let choice = {
        let models = Arc::clone(&models);
        Memo::new(move |_| chosen(fields, &models))
    };
    let model = remote_model(move || choice.get().ok().map(|model| model.id.to_string()));
    Effect::new(move |_| {
        if let Ok(chosen) = choice.get() {
            remember_hardware(chosen.hardware.as_str());
        }
    });
    let hardware = Memo::new(move |_| {
        let slug = choice.get().ok()?.hardware;
        let own = model.value().map(|file| file.model.metadata().hardware.clone());
        own.filter(|own| own.slug == slug).or_else(|| find(slug.as_str()))
    });
    let problem = Memo::new(move |_| fields.problem().ok());
    let rounds = move || !fields.tf32.with(String::is_empty);
    let nearest = Nearest::to(move || hardware.get().zip(problem.get()));
    // What was measured is there before the model.
    let first = move || {
        let (hardware, problem) = hardware.get().zip(problem.get())?;
        answer::measured(&hardware, &nearest.of(&problem)?, &problem, rounds())
    };
    let result = move || match (choice.get(), model.get()) {
        (Err(message), _) => {
            empty(message, view! { "Choose another model, or " <a href="/models#train">"train one"</a> "." })
        }
        // A placeholder lower than the answer would show the parts below it, and the answer would then push
        // them down.
        (_, Load::Waiting) => view! { {first} <Skeleton height="48rem" /> }.into_any(),
        (_, Load::Failed(reason)) => view! { <FailedLoad reason retry=move || model.retry() /> }.into_any(),
        (Ok(summary), Load::Ready(file)) => {
            view! { <Answer fields summary model=Arc::clone(&file.model) nearest /> }.into_any()
        }
    };
    let all = Arc::clone(&models);
    let is_open = RwSignal::new(false);
    let further = move || {
        let (summary, model) = (choice.get().ok()?, Arc::clone(&model.value()?.model));
        let about = About { fields, summary, model, models: Arc::clone(&all), is_open };
        Some(view! {
            <div class:busy=move || nearest.problem() != problem.get()>
                <Everywhere asked=Signal::derive(move || Some((nearest.problem()?, rounds()))) />
            </div>
            <Further about />
            <NearestProblems nearest />
        })
    };
    view! {
        <div class="split form-first">
            <Form fields models choice is_there=Signal::derive(move || model.value().is_some()) />
            <div class="section">
                <Deferred height="48rem">{result}</Deferred>
                <Deferred>{further.clone()}</Deferred>
            </div>
        </div>
    }
    .into_any()
}

/// The field for one size. The overview has it, too.
#[component]
pub(crate) fn SizeField(
    key: &'static str,
    value: RwSignal<String>,
    #[prop(optional, into)] wrong: Signal<bool>,
    /// Called if the reader writes or pastes a whole shape into the field.
    take: Callback<Parameters>,
) -> impl IntoView {
    let id = format!("size-{key}");
    let input = move |event: Event| {
        let text = event_target_value(&event);
        match shape(&text) {
            Some(shape) if is_pasted(&event) => take.run(shape),
            _ => value.set(text),
        }
    };
    let change = move |event| {
        let text = event_target_value(&event);
        match shape(&text) {
            Some(shape) => take.run(shape),
            None => value.set(plain(&text)),
        }
    };
    view! {
        <div class="field">
            <label for=id.clone()>{label(key)}</label>
            <input
                type="text"
                inputmode="numeric"
                autocomplete="off"
                class="size"
                id=id
                name=key
                prop:value=move || value.get()
                on:input=input
                on:change=change
                aria-invalid=move || if wrong.get() { "true" } else { "false" }
                aria-describedby="problem-error"
            />
        </div>
    }
}

fn label(key: &str) -> String {
    match key {
        "groups" => "Groups of weights".to_owned(),
        "top_k" => "Groups per token".to_owned(),
        size => size.to_ascii_uppercase(),
    }
}

/// The digits of a size in any notation. Other texts stay as they are.
pub(crate) fn plain(text: &str) -> String {
    let text = text.trim();
    whole(text).map_or_else(|| text.to_owned(), |size| size.to_string())
}

/// What a text says about a shape, as parameters of the address.
pub(crate) type Parameters = Vec<(&'static str, String)>;

/// The hardware that a text names at its end, as in `512x14336x4096 bf16 on H200`, and the text before it.
pub(crate) fn on_hardware(text: &str) -> (&str, Option<Hardware>) {
    let place = text.to_ascii_lowercase().rfind(" on ");
    let found = place.and_then(|place| Some((&text[..place], find(text[place + 4..].trim())?)));
    found.map_or((text, None), |(text, hardware)| (text, Some(hardware)))
}

/// A shape in the notation of lists: `4096^3` is a cube, and `x @ W` or `x @ W.T` after the sizes says how the weights lie.
pub(crate) fn usual_notation(text: &str) -> String {
    let (sizes, layout) = match text.split_once(" x @ W") {
        Some((sizes, rest)) if rest.starts_with(".T") => (format!("{sizes}{}", &rest[2..]), " column"),
        Some((sizes, rest)) => (format!("{sizes}{rest}"), ""),
        None => (text.to_owned(), ""),
    };
    let cube = |word: &str| {
        let size = word.strip_suffix("^3").or_else(|| word.strip_suffix('³'));
        size.filter(|size| whole(size).is_some()).map_or_else(|| word.to_owned(), |size| [size; 3].join("x"))
    };
    sizes.split_whitespace().map(cube).collect::<Vec<_>>().join(" ") + layout
}

/// A whole shape. `None` if the text is one number, or no shape.
fn shape(text: &str) -> Option<Parameters> {
    let said = whole(text.trim()).is_none().then(|| ProblemWords::read(text));
    said?.ok().filter(ProblemWords::has_sizes).map(parameters)
}

pub(crate) fn parameters(said: ProblemWords) -> Parameters {
    let said = said.of_launch();
    let size = |size: Option<u64>| size.map(|size| size.to_string());
    let count = |count: Option<u32>| count.map(|count| count.to_string());
    let all = [
        ("op", said.op.map(|op| op.to_string())),
        ("b", size(said.b)),
        ("m", size(said.m)),
        ("n", size(said.n)),
        ("k", size(said.k)),
        ("dtype", said.named_dtype().map(|dtype| dtype.to_string())),
        ("a_layout", said.a_layout.map(|layout| layout.to_string())),
        ("b_layout", said.b_layout.map(|layout| layout.to_string())),
        ("bias", said.bias.map(|bias| bias.to_string())),
        ("scaling", said.scaling.map(|scaling| scaling.to_string())),
        ("groups", count(said.groups)),
        ("top_k", count(said.top_k)),
        ("stage", said.stage.map(|stage| stage.to_string())),
        ("tf32", said.tf32.then(|| "1".to_owned())),
    ];
    all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

#[component]
fn Form(
    fields: Fields,
    models: Arc<Vec<ModelSummary>>,
    choice: Memo<Result<ModelSummary, String>>,
    /// Whether the model has been loaded. On a slow computer, the answer must come before the form's further
    /// requests.
    is_there: Signal<bool>,
) -> impl IntoView {
    let refusal = Memo::new(move |_| fields.problem().err().or_else(|| fields.epilogue().err()));
    let wrong = move |field| {
        Signal::derive(move || refusal.with(|r| r.as_ref().and_then(Invalid::field) == Some(field)))
    };
    let mut places: Vec<Choice> = Vec::new();
    for model in models.iter() {
        let slug = model.hardware.to_string();
        if places.iter().all(|(known, _)| *known != slug) {
            let name =
                find(&slug).map_or_else(|| slug.clone(), |hardware| format::gpu(&hardware.name).to_owned());
            places.push((slug, name));
        }
    }
    let choose_hardware = move |slug: String| {
        fields.model.set(String::new());
        fields.hardware.set(slug);
    };
    let current_hardware = Signal::derive(move || {
        choice.with(|c| c.as_ref().map(|model| model.hardware.to_string()).unwrap_or_default())
    });
    let choose_model = move |id: String| {
        fields.hardware.set(String::new());
        fields.model.set(id);
    };
    let current_model =
        move || choice.with(|c| c.as_ref().map(|model| model.id.to_string()).unwrap_or_default());
    // If the address names another type, the form offers it, too.
    let given = fields.dtype.get_untracked().parse::<DType>().ok();
    let dtypes = move |op: Op| {
        let usual: &[DType] = if op == Op::ScaledMm || op == Op::ScaledGroupedMm { &NARROW } else { &DTYPES };
        let experts: &[DType] = if op == Op::FusedMoe { &NARROW } else { &[] };
        let extra = given.filter(|dtype| !usual.contains(dtype) && op.is_plain());
        unnamed(usual.iter().chain(experts).copied().chain(extra))
    };
    let hardware = Signal::derive(move || match (is_there.get(), choice.get()) {
        (true, Ok(model)) => model.hardware.to_string(),
        _ => String::new(),
    });
    let take = Callback::new(move |said: Parameters| fields.take(&said));
    let op = Memo::new(move |_| fields.op.with(|op| op.parse().unwrap_or(Op::Mm)));
    let is_op = move |has: fn(Op) -> bool| Memo::new(move |_| has(op.get()));
    let (batched, biased, plain) = (is_op(Op::is_batched), is_op(Op::has_bias), is_op(Op::is_plain));
    let further = move || {
        let op = op.get();
        let scalings = Scaling::ALL.iter().filter(|scaling| op == Op::FusedMoe || **scaling != Scaling::None);
        view! {
            {op.may_scale().then(|| chips("Scales by", unnamed(scalings), fields.scaling))}
            {op.is_grouped().then(|| view! {
                <div class="fields">
                    <SizeField key="groups" value=fields.groups wrong=wrong(Field::Groups) take />
                    <SizeField key="top_k" value=fields.top_k wrong=wrong(Field::TopK) take />
                </div>
                <p class="hint">{if op == Op::FusedMoe { "M counts tokens. Each goes to so many groups." } else { "M counts the rows of all groups." }}</p>
            })}
            {(op == Op::FusedMoe).then(|| chips("Stage", unnamed(Stage::ALL), fields.stage))}
        }
    };
    let kind = move || {
        fields.problem().map_or_else(|_| "Op, type and layout".to_owned(), |problem| format::kind(&problem))
    };
    let is_float32 = Memo::new(move |_| fields.dtype.with(|dtype| dtype.parse() == Ok(DType::Float32)));
    view! {
            <form class="card" on:submit=|event| event.prevent_default() aria-label="Shape">
                <Chips label="GPU" choices=places current=current_hardware choose=choose_hardware />
                <div class="fields">
                    <SizeField key="m" value=fields.m wrong=wrong(Field::M) take />
                    <SizeField key="n" value=fields.n wrong=wrong(Field::N) take />
                    <SizeField key="k" value=fields.k wrong=wrong(Field::K) take />
                </div>
                <p class="error-text" id="problem-error" role="alert" class:hidden=move || refusal.with(Option::is_none)>
                    {move || refusal.get().map(|refusal| refusal.to_string())}
                </p>
                <details open=is_wide()>
                    <summary>{kind}</summary>
                    <div class="section">
                {chips("Op", unnamed(Op::ALL), fields.op)}
                {move || batched.get().then(|| view! { <SizeField key="b" value=fields.b wrong=wrong(Field::B) take /> })}
                {move || biased.get().then(|| chips("Bias", unnamed([Bias::Vector, Bias::Matrix]), fields.bias))}
                {move || chips("Dtype", dtypes(op.get()), fields.dtype)}
                {further}
                {move || is_float32.get().then(|| chips("Float32 is computed", float32(), fields.tf32))}
                {move || plain.get().then(|| view! {
                    {chips("Computes", named(&[("row", "x @ W"), ("column", "nn.Linear: x @ W.T")]), fields.b_layout)}
                    {select("Epilogue", epilogues(), fields.epilogue)}
                })}
    {move || plain.get().then(|| chips("Layout of A", unnamed(Layout::ALL), fields.a_layout))}
                        <Select
                            label="Model"
                            placeholder="Choose a model"
                            choices=models.iter().map(model_choice).collect()
                            current=current_model
                            choose=choose_model
                        />
                    </div>
                </details>
                <Deferred><Examples fields hardware /></Deferred>
            </form>
        }
}

/// Full float32 or TF32. In torch, `set_float32_matmul_precision` decides between them.
pub(crate) fn float32() -> Vec<Choice> {
    named(&[("", "in full"), ("1", "as TF32")])
}

/// The epilogues that may follow a multiplication.
pub(crate) fn epilogues() -> Vec<Choice> {
    let text = |epilogue| match epilogue {
        Epilogue::None => "none: the product alone",
        Epilogue::Relu => "ReLU",
        Epilogue::Gelu => "GELU",
        Epilogue::GeluTanh => "GELU by tanh",
        Epilogue::Silu => "SiLU",
        Epilogue::SiluGate => "SiLU × gate",
        Epilogue::Residual => "residual: a matrix is added",
        Epilogue::Float32 => "cast to float32",
    };
    let choice = |epilogue: &Epilogue| (epilogue.to_string(), text(*epilogue).to_owned());
    Epilogue::ALL.iter().map(choice).collect()
}

pub(crate) fn model_choice(model: &ModelSummary) -> Choice {
    let problems = format::counted(model.training_problems, "problem");
    (model.id.to_string(), format!("{}, {problems}, {}", model.hardware, format::day(&model.created_at)))
}

/// Common shapes. The first is the form's default.
const COMMON: [(&str, [u64; 3]); 5] = [
    ("square", [4096, 4096, 4096]),
    ("Llama 8B, MLP up", [2048, 14336, 4096]),
    ("Llama 8B, MLP down", [2048, 4096, 14336]),
    ("decode, 16 tokens", [16, 4096, 4096]),
    ("small", [256, 512, 256]),
];

/// This many nearest problems are searched for one that differs from the form's defaults only in its sizes.
const LOOKED_AT: u32 = 20;

#[component]
fn Examples(
    fields: Fields,
    /// The slug of the model's hardware. Empty while there is no model.
    #[prop(into)]
    hardware: Signal<String>,
) -> impl IntoView {
    let names_a_shape =
        use_query_map().with_untracked(|map| SHAPE.iter().any(|key| map.get(key.name).is_some()));
    let found = COMMON
        .map(|(name, sizes)| (name, sizes.map(|size| size.to_string()).join("×"), measured(hardware, sizes)));
    let default = found[0].2;
    let chosen = move || {
        let Fields { op, b, m, n, k, dtype, a_layout, b_layout, .. } = fields;
        [op, b, m, n, k, dtype, a_layout, b_layout].map(|signal| signal.get_untracked())
    };
    let first = chosen();
    Effect::new(move |done: Option<bool>| {
        let Some(problem) = default.get().filter(|_| done != Some(true)) else {
            return done.unwrap_or(false);
        };
        if !names_a_shape && chosen() == first {
            fill(fields, &problem);
        }
        true
    });
    let chips = found.map(|(name, own, problem)| {
        move || {
            problem.get().map(|problem| {
                let dims = problem.dims();
                // A name that people know is only given to the sizes that they know by it.
                let text = if dims == own { format!("{name} {dims}") } else { dims.clone() };
                view! {
                    <button type="button" class="chip" data-shape=dims.clone() on:click=move |_| fill(fields, &problem)>
                        {text}
                    </button>
                }
            })
        }
    });
    view! {
        <div class="field" role="group" aria-label="Measured examples">
            <span class="label">"Measured examples"</span>
            <div class="chips">{chips.collect_view()}</div>
        </div>
    }
}

/// The measured problem nearest to a shape, once the server has answered.
fn measured(hardware: Signal<String>, [m, n, k]: [u64; 3]) -> Memo<Option<Problem>> {
    let common = Problem::new(ProblemFields::plain(Op::Mm, 1, m, n, k, DType::BFloat16)).ok();
    let near = remote::<Vec<NearestProblem>>(move || {
        let hardware = Some(hardware.get()).filter(|hardware| !hardware.is_empty())?;
        Some(nearest_path(&hardware, common.as_ref()?, LOOKED_AT))
    });
    let usual = |near: &&NearestProblem| near.problem.op == Op::Mm && near.problem.a_layout == Layout::Row;
    Memo::new(move |_| {
        let near: Arc<Vec<NearestProblem>> = near.value()?;
        near.iter().find(usual).map(|near| near.problem.clone())
    })
}

fn fill(fields: Fields, problem: &Problem) {
    let p = problem;
    if p.op.has_bias() {
        fields.bias.set(p.bias.to_string());
    }
    for (signal, value) in [
        (fields.op, p.op.to_string()),
        (fields.b, p.b.to_string()),
        (fields.m, p.m.to_string()),
        (fields.n, p.n.to_string()),
        (fields.k, p.k.to_string()),
        (fields.dtype, p.a_dtype.to_string()),
        (fields.a_layout, p.a_layout.to_string()),
        (fields.b_layout, p.b_layout.to_string()),
    ] {
        signal.set(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_may_end_in_its_hardware() {
        let (text, hardware) = on_hardware("512x14336x4096 bf16 on H200");
        assert_eq!(
            (text, hardware.map(|one| one.slug.to_string()).as_deref()),
            ("512x14336x4096 bf16", Some("nvidia-h200"))
        );
        assert_eq!(on_hardware("1x2x3").1, None);
        assert_eq!(on_hardware("1x2x3 on my desk").0, "1x2x3 on my desk");
    }
}
