//! Two methods, on one hardware or on two.

use std::sync::Arc;

use diode_api::{HardwareSummary, MethodOn};
use leptos::prelude::*;

use super::chosen::chosen_pair;
use super::pair::Compared;
use crate::components::{Choice, Empty, Loaded};
use crate::format;
use crate::remote::remote;

#[component]
pub(super) fn MethodPair() -> impl IntoView {
    let all = remote::<Vec<HardwareSummary>>(|| Some("/hardware".to_owned()));
    view! { <Loaded remote=all height="40rem" children=move |all| view! { <Methods all /> } /> }
}

/// Each hardware with each method by which it was timed.
fn timed(all: &[HardwareSummary]) -> Vec<Choice> {
    let of = |one: &HardwareSummary| -> Vec<Choice> {
        let choice = |method| {
            let (hardware, name) = (one.hardware.slug.clone(), &one.hardware.name);
            (MethodOn { hardware, method }.to_string(), format!("{}, {name}", format::method(method)))
        };
        one.methods.iter().copied().map(choice).collect()
    };
    all.iter().flat_map(of).collect()
}

/// Two methods of the hardware with the most problems among hardware with several methods.
fn usual(all: &[HardwareSummary]) -> Option<[String; 2]> {
    let one = all.iter().filter(|one| one.methods.len() > 1).max_by_key(|one| one.problems)?;
    let of = |place: usize| MethodOn { hardware: one.hardware.slug.clone(), method: one.methods[place] };
    Some([of(1).to_string(), of(0).to_string()])
}

#[component]
fn Methods(all: Arc<Vec<HardwareSummary>>) -> impl IntoView {
    let Some(usual) = usual(&all) else {
        return view! { <Empty heading="Two ways of timing are needed">"No hardware here was timed in two ways. Files of torch-diode and collections by diode are of different ways, and so are clocks of the wall and of the GPU."</Empty> }
            .into_any();
    };
    let (a, b, fields) = chosen_pair("Method", timed(&all), usual);
    let name =
        Callback::new(|name: String| name.parse::<MethodOn>().map_or(name, |one| format::method(one.method)));
    view! {
        {fields}
        <Compared what="methods" a b name />
    }
    .into_any()
}
