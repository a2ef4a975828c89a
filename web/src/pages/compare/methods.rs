//! Two ways of timing, on one hardware or on two.

use std::sync::Arc;

use diode_core::api::{HardwareSummary, MethodOn};
use leptos::prelude::*;

use super::pair::Compared;
use crate::components::{Choice, Empty, Loaded, Select};
use crate::query::{History, parameter, use_set_parameters};
use crate::remote::remote;

#[component]
pub(super) fn MethodPair() -> impl IntoView {
    let all = remote::<Vec<HardwareSummary>>(|| Some("/hardware".to_owned()));
    view! { <Loaded remote=all height="40rem" children=move |all| view! { <Methods all /> } /> }
}

/// What was timed, hardware by hardware.
fn timed(all: &[HardwareSummary]) -> Vec<Choice> {
    let of = |one: &HardwareSummary| -> Vec<Choice> {
        let choice = |method| {
            let (hardware, name) = (one.hardware.slug.clone(), &one.hardware.name);
            (MethodOn { hardware, method }.to_string(), format!("{method}, {name}"))
        };
        one.methods.iter().copied().map(choice).collect()
    };
    all.iter().flat_map(of).collect()
}

/// Two ways on one hardware.
fn usual(all: &[HardwareSummary]) -> Option<[String; 2]> {
    let one = all.iter().filter(|one| one.methods.len() > 1).max_by_key(|one| one.problems)?;
    let of = |place: usize| MethodOn { hardware: one.hardware.slug.clone(), method: one.methods[place] };
    Some([of(1).to_string(), of(0).to_string()])
}

#[component]
fn Methods(all: Arc<Vec<HardwareSummary>>) -> impl IntoView {
    let Some([usual_a, usual_b]) = usual(&all) else {
        return view! { <Empty heading="Two ways of timing are needed">"No hardware here was timed in two ways. Files of torch-diode and collections by diode are of different ways, and so are clocks of the wall and of the GPU."</Empty> }
            .into_any();
    };
    let set = use_set_parameters();
    let chosen = |key: &'static str, usual: String| {
        let named = parameter(key);
        Memo::new(move |_| Some(named.get()).filter(|name| !name.is_empty()).unwrap_or_else(|| usual.clone()))
    };
    let (a, b) = (chosen("a", usual_a), chosen("b", usual_b));
    let choices = timed(&all);
    let choose = move |key: &'static str| {
        let set = set.clone();
        move |name: String| set(&[(key, name)], History::Push)
    };
    let name = Callback::new(|name: String| {
        name.split_once('@').map_or(name.clone(), |(_, method)| method.to_owned())
    });
    view! {
        <div class="fields pair">
            <Select label="Compared with" choices=choices.clone() current=a choose=choose("a") />
            <Select label="Method" choices current=b choose=choose("b") />
        </div>
        <Compared what="methods" a b name />
    }
    .into_any()
}
