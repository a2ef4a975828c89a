//! How reliable the ranking is: how good the picks were on unseen problems of the same group.

use diode_core::ProblemGroup;
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
        problems_of(known.group)
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

/// The problems of a group, in words.
fn problems_of(group: ProblemGroup) -> &'static str {
    match group {
        ProblemGroup::Unaligned => "problems with unaligned rows",
        ProblemGroup::TallK => "problems of large K",
        ProblemGroup::Decode => "problems of few rows",
        ProblemGroup::Skinny => "skinny problems",
        ProblemGroup::Rest => "common problems",
    }
}
