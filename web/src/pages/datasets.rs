//! Datasets: all measurements of a hardware, for download.

mod detail;
mod forms;
mod rows;
mod snapshots;

pub(crate) use detail::DatasetPage;
pub(crate) use forms::forms_of;

use diode_api::HardwareSummary;
use leptos::prelude::*;

use crate::components::{Empty, Loaded, Stat, Stats, use_title};
use crate::format;
use crate::remote::remote;

#[component]
pub(crate) fn DatasetsPage() -> impl IntoView {
    use_title(|| "Datasets".to_owned());
    let all = remote::<Vec<HardwareSummary>>(|| Some("/hardware".to_owned()));
    let cards = |all: std::sync::Arc<Vec<HardwareSummary>>| {
        let measured: Vec<_> = all.iter().filter(|one| one.timings > 0).map(card).collect();
        if measured.is_empty() {
            return view! { <Empty heading="No data yet">"Be the first: " <a href="/contribute">"contribute measurements"</a> "."</Empty> }
                .into_any();
        }
        view! { <div class="cards">{measured}</div> }.into_any()
    };
    view! {
        <main class="page">
            <div>
                <h1>"Datasets"</h1>
                <p class="lede">"Every timing of every config that was sent to this server, one dataset for each kind of hardware."</p>
            </div>
            <Loaded remote=all height="14rem" children=cards />
        </main>
    }
}

fn card(summary: &HardwareSummary) -> impl IntoView + use<> {
    let slug = summary.hardware.slug.to_string();
    let updated = summary.updated_at.as_deref().map(|time| format!("updated {}", format::day(time)));
    view! {
        <div class="card linked">
            <div class="card-head">
                <h2><a class="card-link" href=format!("/datasets/{slug}")>{summary.hardware.name.clone()}</a></h2>
                <span class="hint">{updated}</span>
            </div>
            <Stats inner=true stats=figures(summary) />
        </div>
    }
}

/// The size of a dataset.
fn figures(summary: &HardwareSummary) -> [Stat; 3] {
    [
        Stat::new("timings", format::count(summary.timings)),
        Stat::new("problems", format::count(summary.problems)),
        Stat::new("solutions", format::count(summary.solutions))
            .explained("All timings of one problem from one upload are a solution"),
    ]
}
