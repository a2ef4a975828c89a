//! Comparisons: one shape on all hardware; two types of hardware, library versions, uploads, methods or models.
//! Every choice is in the address.

pub(crate) mod models;
mod pair;
mod sides;

use leptos::prelude::*;

use self::models::ModelPair;
use self::pair::HardwarePair;
use self::sides::{LibraryPair, MethodPair, UploadPair};
use crate::components::{Chips, Everywhere, SHAPE, empty, named, page_head, shape_field};
use crate::pages::list::one_shape;
use crate::query::{History, link, parameter, use_set_parameters};

const KEY: &str = "what";

/// The subjects of comparison: the value in the address, and the name.
const SUBJECTS: [(&str, &str); 6] = [
    ("hardware", "two kinds of hardware"),
    ("shape", "one shape on all hardware"),
    ("libraries", "two library versions"),
    ("uploads", "two uploads"),
    ("methods", "two ways of timing"),
    ("models", "two models"),
];

#[component]
pub(crate) fn ComparePage() -> impl IntoView {
    let (named_subject, shape) = (parameter(KEY), parameter(SHAPE));
    let what = Memo::new(move |_| match named_subject.get() {
        named if !named.is_empty() => named,
        _ if shape.with(String::is_empty) => "hardware".to_owned(),
        _ => "shape".to_owned(),
    });
    let set = use_set_parameters();
    let choices = named(&SUBJECTS);
    // The choices of one subject do not exist for another.
    let choose = move |value| {
        let cleared = ["a", "b", SHAPE].into_iter().chain(pair::KEYS).map(|key| (key, String::new()));
        set(&std::iter::once((KEY, value)).chain(cleared).collect::<Vec<_>>(), History::Push);
    };
    let shown = move || match what.get().as_str() {
        "shape" => view! { <OneShape /> }.into_any(),
        "libraries" => view! { <LibraryPair /> }.into_any(),
        "uploads" => view! { <UploadPair /> }.into_any(),
        "methods" => view! { <MethodPair /> }.into_any(),
        "models" => view! { <ModelPair /> }.into_any(),
        _ => view! { <HardwarePair /> }.into_any(),
    };
    view! {
        <main class="page">
            {page_head("/compare")}
            <Chips label="Compare" choices current=what choose />
            {shown}
        </main>
    }
}

/// One shape on every hardware.
#[component]
fn OneShape() -> impl IntoView {
    let text = parameter(SHAPE);
    let read = Memo::new(move |_| {
        let text = text.get();
        (!text.trim().is_empty()).then(|| one_shape(&text))
    });
    let fault = move || read.get().and_then(Result::err);
    let none = move || {
        let examples = ["1x28672x4096 bf16", "4096x4096x4096 fp16"].map(|shape| {
            view! { " " <a href=link("/compare", [(SHAPE, shape.to_owned())])><code>{shape}</code></a> }
        });
        let example = view! { "Write one above, such as" {examples} "." };
        read.with(Option::is_none).then(|| empty("No shape yet", example))
    };
    view! {
        {shape_field("one-shape", "Shape", "1x28672x4096 bf16", fault)}
        {none}
        <Everywhere asked=Signal::derive(move || read.get().and_then(Result::ok)) />
    }
}
