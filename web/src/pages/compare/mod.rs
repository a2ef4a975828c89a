//! What is faster where: one shape on all hardware, two kinds of hardware, two versions of a vendor's library, two
//! uploads, two ways of timing; and which of two models is better. All of it stands in the address.

mod chosen;
mod libraries;
mod methods;
mod models;
mod pair;
mod shape;
mod table;
mod verdict;

use leptos::prelude::*;

use self::libraries::LibraryPair;
use self::methods::MethodPair;
use self::models::ModelPair;
use self::pair::{HardwarePair, UploadPair};
use self::shape::OneShape;
use crate::components::{Chips, use_title};
use crate::query::{History, parameter, use_set_parameters};

const KEY: &str = "what";

/// What can be compared, by its value in the address; the first where the address says nothing.
const SUBJECTS: [(&str, &str); 6] = [
    ("", "one shape on all hardware"),
    ("hardware", "two kinds of hardware"),
    ("libraries", "two library versions"),
    ("uploads", "two uploads"),
    ("methods", "two ways of timing"),
    ("models", "two models"),
];

#[component]
pub(crate) fn ComparePage() -> impl IntoView {
    use_title(|| "Compare".to_owned());
    let what = parameter(KEY);
    let set = use_set_parameters();
    let choices = SUBJECTS.map(|(value, name)| (value.to_owned(), name.to_owned())).into();
    // What was chosen of one kind means nothing of another.
    let choose = move |value| {
        let cleared = ["a", "b"].map(|key| (key, String::new()));
        set(&[&[(KEY, value)], &cleared[..]].concat(), History::Push);
    };
    let shown = move || match what.get().as_str() {
        "hardware" => view! { <HardwarePair /> }.into_any(),
        "libraries" => view! { <LibraryPair /> }.into_any(),
        "uploads" => view! { <UploadPair /> }.into_any(),
        "methods" => view! { <MethodPair /> }.into_any(),
        "models" => view! { <ModelPair /> }.into_any(),
        _ => view! { <OneShape /> }.into_any(),
    };
    view! {
        <main class="page">
            <div>
                <h1>"Compare"</h1>
                <p class="lede">"Measured times and models side by side. The address has everything you choose, so it can be shared."</p>
            </div>
            <Chips label="Compare" choices current=what choose />
            {shown}
        </main>
    }
}
