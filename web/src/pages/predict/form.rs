//! The form: the model, the op, three sizes and more.

use std::sync::Arc;

use diode_api::ModelSummary;
use diode_core::{Bias, DType, Epilogue, Field, Invalid, Layout, Op};
use js_sys::Reflect;
use leptos::ev::Event;
use leptos::prelude::*;

use super::examples::Examples;
use super::fields::{DTYPES, Fields};
use super::shape_words::ShapeWords;
use super::sizes::{plain, whole};
use crate::components::{Chips, Choice, Later, Select};
use crate::format;

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
        // While the reader types, a shape may be incomplete. Only a pasted one is complete.
        let pasted = Reflect::get(&event, &"inputType".into()).is_ok_and(|kind| kind == "insertFromPaste");
        match shape(&text) {
            Some(shape) if pasted => take.run(shape),
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
            <label for=id.clone()>{key.to_ascii_uppercase()}</label>
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

/// What a text says about a shape, as parameters of the address.
pub(crate) type Parameters = Vec<(&'static str, String)>;

/// A whole shape. `None` if the text is one number, or no shape.
fn shape(text: &str) -> Option<Parameters> {
    let said = whole(text.trim()).is_none().then(|| ShapeWords::read(text));
    said?.ok().filter(|said| said.sizes.is_some()).map(|said| said.parameters())
}

#[component]
pub(super) fn Form(
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
    let choose_model = move |id: String| {
        fields.hardware.set(String::new());
        fields.model.set(id);
    };
    let current_model =
        move || choice.with(|c| c.as_ref().map(|model| model.id.to_string()).unwrap_or_default());
    let own =
        |values: Vec<String>| values.into_iter().map(|value| (value.clone(), value)).collect::<Vec<_>>();
    let dtypes = {
        // If the address names another type, the form offers it, too.
        let given = fields.dtype.get_untracked().parse::<DType>().ok();
        let extra = given.filter(|dtype| !DTYPES.contains(dtype));
        own(DTYPES.into_iter().chain(extra).map(|dtype| dtype.to_string()).collect())
    };
    let ops = own(Op::ALL.iter().map(ToString::to_string).collect());
    let layouts = own(Layout::ALL.iter().map(ToString::to_string).collect());
    let hardware = Signal::derive(move || match (is_there.get(), choice.get()) {
        (true, Ok(model)) => model.hardware.to_string(),
        _ => String::new(),
    });
    let biases = own([Bias::Vector, Bias::Matrix].iter().map(ToString::to_string).collect());
    let is_op = move |has: fn(Op) -> bool| fields.op.with(|op| op.parse().is_ok_and(has));
    let (batched, biased) =
        (Memo::new(move |_| is_op(Op::is_batched)), Memo::new(move |_| is_op(Op::has_bias)));
    let is_float32 = Memo::new(move |_| fields.dtype.with(|dtype| dtype.parse() == Ok(DType::Float32)));
    let take = Callback::new(move |said: Parameters| fields.take(&said));
    view! {
        <form class="card" on:submit=|event| event.prevent_default() aria-label="Shape">
            <div class="fields">
                <SizeField key="m" value=fields.m wrong=wrong(Field::M) take />
                <SizeField key="n" value=fields.n wrong=wrong(Field::N) take />
                <SizeField key="k" value=fields.k wrong=wrong(Field::K) take />
            </div>
            <p class="error-text" id="problem-error" role="alert" class:hidden=move || refusal.with(Option::is_none)>
                {move || refusal.get().map(|refusal| refusal.to_string())}
            </p>
            <Chips label="Op" choices=ops current=fields.op choose=move |value| fields.op.set(value) />
            {move || batched.get().then(|| view! { <SizeField key="b" value=fields.b wrong=wrong(Field::B) take /> })}
            {move || biased.get().then(|| view! {
                <Chips
                    label="Bias"
                    choices=biases.clone()
                    current=fields.bias
                    choose=move |value| fields.bias.set(value)
                />
            })}
            <Chips label="Dtype" choices=dtypes current=fields.dtype choose=move |value| fields.dtype.set(value) />
            {move || is_float32.get().then(|| view! {
                <Chips
                    label="Float32 is computed"
                    choices=float32()
                    current=fields.tf32
                    choose=move |value| fields.tf32.set(value)
                />
            })}
            <Chips
                label="Layout of A"
                choices=layouts.clone()
                current=fields.a_layout
                choose=move |value| fields.a_layout.set(value)
            />
            <Chips
                label="Layout of B"
                choices=layouts
                current=fields.b_layout
                choose=move |value| fields.b_layout.set(value)
            />
            <Select
                label="Epilogue"
                choices=epilogues()
                current=fields.epilogue
                choose=move |value| fields.epilogue.set(value)
            />
            <Select
                label="Model"
                placeholder="Choose a model"
                choices=models.iter().map(model_choice).collect()
                current=current_model
                choose=choose_model
            />
            <Later><Examples fields hardware /></Later>
        </form>
    }
}

/// Full float32 or TF32. In torch, `set_float32_matmul_precision` decides between them.
pub(crate) fn float32() -> Vec<Choice> {
    [("", "in full"), ("1", "as TF32")].map(|(value, text)| (value.to_owned(), text.to_owned())).into()
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
