//! A choice of two from a list. The choice is in the address.

use leptos::prelude::*;

use crate::components::{Choice, Select};
use crate::query::{History, parameter, use_set_parameters};

/// Both choices, and the fields to change them. `usual` is what is chosen if the address names nothing.
pub(super) fn chosen_pair(
    label: &'static str,
    choices: Vec<Choice>,
    usual: [String; 2],
) -> (Memo<String>, Memo<String>, AnyView) {
    let [usual_a, usual_b] = usual;
    let chosen = |key: &'static str, usual: String| {
        let named = parameter(key);
        Memo::new(move |_| Some(named.get()).filter(|id| !id.is_empty()).unwrap_or_else(|| usual.clone()))
    };
    let (a, b) = (chosen("a", usual_a), chosen("b", usual_b));
    let set = use_set_parameters();
    let choose = move |key: &'static str| {
        let set = set.clone();
        move |id: String| set(&[(key, id)], History::Push)
    };
    let fields = view! {
        <div class="fields pair">
            <Select label="Compared with" placeholder="Choose one" choices=choices.clone() current=a choose=choose("a") />
            <Select label placeholder="Choose one" choices current=b choose=choose("b") />
        </div>
    };
    (a, b, fields.into_any())
}
