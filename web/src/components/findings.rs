//! Findings: what stands out in measurements, in sentences that the server made.

use diode_api::{Finding, Findings as Found};
use leptos::prelude::*;

use crate::components::{Loaded, empty};
use crate::format;
use crate::remote::remote;

/// The findings that a resource of the API lists.
#[component]
pub(crate) fn Findings(
    #[prop(into)] path: String,
    /// Whether each says on which hardware.
    #[prop(optional)]
    of_several: bool,
) -> impl IntoView {
    let found = remote::<Found>(move || Some(path.clone()));
    let list = move |found: &Found| {
        let Found { min_problems, min_gain, ref items } = *found;
        let from = format!(
            "{min_problems} problems or more and a difference of {} or more",
            format::percent(min_gain)
        );
        if items.is_empty() {
            return empty("Nothing stands out yet", format!("A finding rests on {from}."));
        }
        view! {
            <ul class="findings" data-testid="findings">
                {items.iter().map(|one| finding(one, of_several)).collect_view()}
            </ul>
            <p class="hint">{format!("Computed from what is measured here. Each rests on {from}.")}</p>
        }
        .into_any()
    };
    view! { <Loaded remote=found height="14rem" children=move |found| list(&found) /> }
}

fn finding(one: &Finding, of_several: bool) -> impl IntoView + use<> {
    let sample = format!("{} of {}", format::count(one.problems), format::counted(one.of, "problem"));
    let place = of_several.then(|| view! { <span class="tag">{one.name.clone()}</span> " " });
    view! {
        <li class="card" data-kind=one.kind.to_string()>
            <p>{place} {one.sentence.clone()}</p>
            <p class="hint"><a href=one.link.clone()>{sample}</a></p>
        </li>
    }
}
