//! A field for the sizes of a shape that the reader wants to predict.

use diode_core::Op;
use leptos::prelude::*;
use leptos_router::hooks::use_navigate;

use crate::components::Chips;
use crate::pages::predict::{DTYPES, SizeField};
use crate::query::address;

/// The form for a shape. It leads directly to the prediction.
#[component]
pub(super) fn Lookup() -> impl IntoView {
    let sizes = ["m", "n", "k"].map(|key| (key, RwSignal::new("4096".to_owned())));
    let dtype = RwSignal::new(DTYPES[0].to_string());
    // The field for a batch appears once the reader writes or pastes a whole shape that has one.
    let (batch, is_batched) = (RwSignal::new(String::new()), RwSignal::new(false));
    let take = Callback::new(move |(b, shape): (Option<u64>, [u64; 3])| {
        is_batched.set(b.is_some());
        batch.set(b.map(|b| b.to_string()).unwrap_or_default());
        for ((_, value), size) in sizes.into_iter().zip(shape) {
            value.set(size.to_string());
        }
    });
    let navigate = use_navigate();
    let submit = move |event: leptos::ev::SubmitEvent| {
        event.prevent_default();
        let sizes = sizes.map(|(key, size)| (key, size.get_untracked()));
        let batch = is_batched
            .get_untracked()
            .then(|| [("op", Op::Bmm.to_string()), ("b", batch.get_untracked())])
            .into_iter()
            .flatten();
        let parameters = batch.chain(sizes).chain([("dtype", dtype.get_untracked())]);
        let target = address("/predict", parameters);
        navigate(&target, Default::default());
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
