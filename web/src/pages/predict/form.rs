//! The form: a model, an operator, three sizes.

use std::sync::Arc;

use diode_core::api::ModelSummary;
use diode_core::{DType, Field, Invalid, Layout, Op};
use leptos::prelude::*;

use super::examples::Examples;
use super::fields::{DTYPES, Fields};
use crate::components::{Chips, Choice, Select};
use crate::format;

/// The input of one size, as the overview and this page show it.
#[component]
pub(crate) fn SizeField(
    key: &'static str,
    value: RwSignal<String>,
    #[prop(optional, into)] wrong: Signal<bool>,
) -> impl IntoView {
    let id = format!("size-{key}");
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
                on:input=move |event| value.set(event_target_value(&event))
                aria-invalid=move || if wrong.get() { "true" } else { "false" }
                aria-describedby="problem-error"
            />
        </div>
    }
}

#[component]
pub(super) fn Form(
    fields: Fields,
    models: Arc<Vec<ModelSummary>>,
    choice: Memo<Result<ModelSummary, String>>,
) -> impl IntoView {
    let refusal = Memo::new(move |_| fields.problem().err());
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
        // An unusual type that the address names is offered too.
        let given = fields.dtype.get_untracked().parse::<DType>().ok();
        let extra = given.filter(|dtype| !DTYPES.contains(dtype));
        own(DTYPES.into_iter().chain(extra).map(|dtype| dtype.to_string()).collect())
    };
    let ops = own(Op::ALL.iter().map(ToString::to_string).collect());
    let layouts = own(Layout::ALL.iter().map(ToString::to_string).collect());
    let batched = move || fields.op.with(|op| op.parse::<Op>().is_ok_and(Op::is_batched));
    let hardware = Signal::derive(move || {
        choice.with(|c| c.as_ref().map(|model| model.hardware.to_string()).unwrap_or_default())
    });
    view! {
        <form class="card" on:submit=|event| event.prevent_default() aria-label="Shape">
            <div class="fields">
                <SizeField key="m" value=fields.m wrong=wrong(Field::M) />
                <SizeField key="n" value=fields.n wrong=wrong(Field::N) />
                <SizeField key="k" value=fields.k wrong=wrong(Field::K) />
            </div>
            <p class="error-text" id="problem-error" role="alert" class:hidden=move || refusal.with(Option::is_none)>
                {move || refusal.get().map(|refusal| refusal.to_string())}
            </p>
            <Chips label="Op" choices=ops current=fields.op choose=move |value| fields.op.set(value) />
            {move || batched().then(|| view! { <SizeField key="b" value=fields.b wrong=wrong(Field::B) /> })}
            <Chips label="Dtype" choices=dtypes current=fields.dtype choose=move |value| fields.dtype.set(value) />
            <Chips
                label="Layout of B"
                choices=layouts
                current=fields.b_layout
                choose=move |value| fields.b_layout.set(value)
            />
            <Select
                label="Model"
                placeholder="Choose a model"
                choices=models.iter().map(model_choice).collect()
                current=current_model
                choose=choose_model
            />
            <Examples fields hardware />
        </form>
    }
}

fn model_choice(model: &ModelSummary) -> Choice {
    let problems = format::counted(model.training_problems, "problem");
    (model.id.to_string(), format!("{}, {problems}, {}", model.hardware, format::day(&model.created_at)))
}
