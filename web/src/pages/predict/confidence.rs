//! How reliable the ranking is: how good the picks were on unseen problems of the same group.

use diode_model::GroupConfidence;
use leptos::prelude::*;

use crate::components::Bar;
use crate::format;

/// Shows for how many of the group's unseen problems the best of k picks was within 5 % of the best config.
#[component]
pub(super) fn Confidence(known: GroupConfidence) -> impl IntoView {
    let rows = known.within_5_percent.iter().map(|&(picks, share)| {
        let picks = if picks == 1 { "only the first".to_owned() } else { format!("the first {picks}") };
        view! { <span>{picks}</span> <Bar share /> <span>{format::percent(share)}</span> }
    });
    let hint = format!(
        "share of {} unseen {} within 5 % of the best, the library's kernel among them, if you time",
        format::count(known.problems),
        known.group.in_words()
    );
    view! {
        <section class="card" data-testid="within-5-percent">
            <div class="card-head">
                <h2>"How sure is that?"</h2>
                <span class="hint">{hint}</span>
            </div>
            <div class="confidence">{rows.collect_view()}</div>
        </section>
    }
}
