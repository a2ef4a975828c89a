//! A field for the sizes of a shape that the reader wants to predict.

use diode_core::Op;
use leptos::prelude::*;
use leptos_router::hooks::use_navigate;

use crate::components::Chips;
use crate::pages::predict::{DTYPES, Parameters, SizeField};
use crate::query::address;

/// The form for a shape. It leads directly to the prediction.
#[component]
pub(super) fn Lookup() -> impl IntoView {
    let sizes = ["m", "n", "k"].map(|key| (key, RwSignal::new("4096".to_owned())));
    let dtype = RwSignal::new(DTYPES[0].to_string());
    // The field for a batch appears once the reader writes or pastes a whole shape that has one.
    let (batch, is_batched) = (RwSignal::new(String::new()), RwSignal::new(false));
    // What a whole shape says beyond the form's fields, as the end of the address.
    let further = RwSignal::new(String::new());
    let take = Callback::new(move |mut said: Parameters| {
        is_batched.set(said.iter().any(|(key, _)| *key == "b"));
        for (key, signal) in sizes.into_iter().chain([("b", batch), ("dtype", dtype)]) {
            if let Some(place) = said.iter().position(|(own, _)| *own == key) {
                signal.set(said.swap_remove(place).1);
            }
        }
        further.set(address("", said).replacen('?', "&", 1));
    });
    let navigate = use_navigate();
    let submit = move |event: leptos::ev::SubmitEvent| {
        event.prevent_default();
        let further = further.get_untracked();
        let mut parameters = Vec::new();
        if is_batched.get_untracked() {
            if !further.contains("op=") {
                parameters.push(("op", Op::Bmm.to_string()));
            }
            parameters.push(("b", batch.get_untracked()));
        }
        parameters.extend(sizes.map(|(key, size)| (key, size.get_untracked())));
        parameters.push(("dtype", dtype.get_untracked()));
        navigate(&(address("/predict", parameters) + &further), Default::default());
    };
    let dtypes = DTYPES.iter().map(|dtype| (dtype.to_string(), dtype.to_string())).collect();
    view! {
        <section class="card" aria-labelledby="lookup-title">
            <h2 id="lookup-title">"Look up your shape"</h2>
            <form class="lookup" on:submit=submit>
                {move || is_batched.get().then(|| view! { <SizeField key="b" value=batch take /> })}
                {sizes.map(|(key, value)| view! { <SizeField key value take /> }).collect_view()}
                <Chips label="Dtype" choices=dtypes current=dtype choose=move |value| dtype.set(value) />
                <button type="submit" class="button primary">"Predict"</button>
            </form>
        </section>
    }
}
