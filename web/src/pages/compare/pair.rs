//! Two things to compare, such as two types of hardware: the choices, and the request.

use std::sync::Arc;

use diode_api::{HardwareSummary, Kernels, Ratios};
use diode_core::{Layout, Op};
use leptos::prelude::*;
use leptos_router::hooks::use_query_map;

use super::chosen::chosen_pair;
use super::table::Rows;
use super::verdict::Verdict;
use crate::components::{Choice, Empty, Loaded};
use crate::pages::hardware::{Filter, KernelSwitch, Ranges, any_fault, any_of};
use crate::pages::predict::DTYPES;
use crate::query::link;
use crate::remote::remote;

/// The parameters that the address and the API share, besides `a` and `b`.
const KEYS: [&str; 14] = [
    "kernels", "noise", "order", "limit", "op", "dtype", "b_layout", "method", "min_m", "max_m", "min_n",
    "max_n", "min_k", "max_k",
];

#[component]
pub(super) fn HardwarePair() -> impl IntoView {
    let all = remote::<Vec<HardwareSummary>>(|| Some("/hardware".to_owned()));
    view! { <Loaded remote=all height="40rem" children=move |all| view! { <Hardware all /> } /> }
}

#[component]
fn Hardware(all: Arc<Vec<HardwareSummary>>) -> impl IntoView {
    let mut measured: Vec<&HardwareSummary> = all.iter().filter(|one| one.timings > 0).collect();
    measured.sort_by_key(|one| std::cmp::Reverse(one.problems));
    let usual: Vec<String> = measured.iter().map(|one| one.hardware.slug.to_string()).collect();
    // The hardware with the most problems is `b`: the other is compared with it.
    let [Some(usual_a), Some(usual_b)] = [1, 0].map(|place| usual.get(place).cloned()) else {
        return view! { <Empty heading="Two kinds of hardware are needed">"Fewer were measured here. " <a href="/contribute">"Contribute measurements"</a> " of another."</Empty> }
            .into_any();
    };
    let choices: Vec<Choice> =
        measured.iter().map(|one| (one.hardware.slug.to_string(), one.hardware.name.clone())).collect();
    let names = choices.clone();
    let (a, b, fields) = chosen_pair("Hardware", choices, [usual_a, usual_b]);
    let name = Callback::new(move |slug: String| {
        names.iter().find(|(own, _)| *own == slug).map_or(slug, |(_, name)| name.clone())
    });
    view! {
        {fields}
        <Compared what="hardware" a b name />
    }
    .into_any()
}

/// The filters, and the server's comparison.
#[component]
pub(super) fn Compared(
    what: &'static str,
    a: Memo<String>,
    b: Memo<String>,
    name: Callback<String, String>,
    /// The kernels whose times the server compares if the address names none.
    #[prop(default = Kernels::Triton)]
    usual_kernels: Kernels,
    /// The hardware of both models, if two models are compared. Picks of models are Triton kernels.
    #[prop(optional)]
    of_models: Option<String>,
) -> impl IntoView {
    let are_models = of_models.is_some();
    let (map, any_fault) = (use_query_map(), any_fault());
    let ratios = remote::<Ratios>(move || {
        let value = |key| match key {
            "kernels" if are_models => String::new(),
            _ => map.with(|map| map.get(key).unwrap_or_default()),
        };
        let given = KEYS.map(|key| (key, value(key)));
        let pair = [("a", a.get()), ("b", b.get())];
        (!any_fault.get()).then(|| link(&format!("/comparisons/{what}"), pair.into_iter().chain(given)))
    });
    let choices = |values: &[(&str, &str)]| -> Vec<Choice> {
        values.iter().map(|(value, text)| ((*value).to_owned(), (*text).to_owned())).collect()
    };
    let noise = choices(&[("1", "1 %"), ("2", "2 %"), ("5", "5 %"), ("10", "10 %")]);
    let order = choices(&[("", "slower first"), ("desc", "faster first")]);
    let answer = move || {
        if any_fault.get() {
            return view! { <Empty heading="No problems to show">"Correct the sizes above first."</Empty> }
                .into_any();
        }
        let of_models = of_models.clone();
        let shown = move |ratios: Arc<Ratios>| {
            let names = [a, b].map(|side| name.run(side.get_untracked()));
            // The name of a library version begins with its hardware.
            let slug =
                |side: Memo<String>| side.with_untracked(|side| side.split('@').next().map(str::to_owned));
            let slugs = match of_models.clone() {
                Some(hardware) => Some([hardware.clone(), hardware]),
                None => (what != "uploads").then(|| [a, b].map(|side| slug(side).unwrap_or_default())),
            };
            view! {
                <Verdict ratios=Arc::clone(&ratios) names=names.clone() />
                <Rows ratios names slugs />
            }
        };
        view! { <Loaded remote=ratios height="40rem" children=shown /> }.into_any()
    };
    view! {
        <section class="section" aria-label="What to compare">
            {(!are_models).then(|| view! { <KernelSwitch usual=usual_kernels /> })}
            <div class="filters">
                <Filter label="Op" key="op" choices=any_of(Op::ALL) />
                <Filter label="Dtype" key="dtype" choices=any_of(&DTYPES) />
                <Filter label="Layout of B" key="b_layout" choices=any_of(Layout::ALL) />
                <Ranges />
            </div>
            <div class="filters">
                <Filter label="Counts as the same within" key="noise" choices=noise default="2".to_owned() />
                <Filter label="Order" key="order" choices=order />
            </div>
        </section>
        <section class="section" class:busy=move || ratios.busy() aria-label="Comparison">{answer}</section>
    }
}
