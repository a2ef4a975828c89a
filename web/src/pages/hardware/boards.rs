//! The choice among the boards of a hardware, which is in the address, and two short ones: contributors and models.

use std::sync::Arc;

use diode_api::{HardwareContributor, HardwareSummary, ModelSummary};
use leptos::prelude::*;

use crate::components::{Findings, Loaded, be_the_first, empty, head, named, num, table};
use crate::format;
use crate::pages::WorkloadBoard;
use crate::pages::hardware::Problems;
use crate::pages::hardware::configs::ConfigBoard;
use crate::pages::hardware::coverage::CoverageBoard;
use crate::pages::hardware::filters::{Filter, Filters};
use crate::pages::hardware::sizes::SizeBoard;
use crate::pages::models::card;
use crate::query::went_back;
use crate::query::{link, parameter};
use crate::remote::remote;

const KEY: &str = "board";

/// The id of the choice among the boards.
const PLACE: &str = "boards";

/// Each board's value in the address, and its name. The first board is shown if the address names none.
const BOARDS: [(&str, &str); 8] = [
    ("", "Problems"),
    ("findings", "Findings"),
    ("workloads", "Workloads"),
    ("sizes", "Map"),
    ("configs", "Configs"),
    ("coverage", "Coverage"),
    ("contributors", "Contributors"),
    ("models", "Models"),
];

#[component]
pub(super) fn Boards(summary: Arc<HardwareSummary>) -> impl IntoView {
    let board = parameter(KEY);
    // A link to a board leads to it, not to the head of the page. A reader who went back is led by the history.
    if !board.with_untracked(String::is_empty) && !went_back() {
        request_animation_frame(|| {
            if let Some(place) = document().get_element_by_id(PLACE) {
                place.scroll_into_view();
            }
        });
    }
    let shown = move || {
        let summary = Arc::clone(&summary);
        match board.get().as_str() {
            "findings" => {
                let path = format!("/hardware/{}/findings", summary.hardware.slug);
                view! {
                    <section class="section" aria-labelledby="board-title">
                        <h2 id="board-title">"Findings"</h2>
                        <Findings path />
                    </section>
                }
                .into_any()
            }
            "configs" => {
                view! { <Filters summary=Arc::clone(&summary) /> <ConfigBoard summary /> }.into_any()
            }
            "sizes" => view! { <Filters summary=Arc::clone(&summary) /> <SizeBoard summary /> }.into_any(),
            "workloads" => view! { <WorkloadBoard slug=summary.hardware.slug.clone() /> }.into_any(),
            "coverage" => view! { <CoverageBoard summary /> }.into_any(),
            "contributors" => view! { <ContributorBoard summary /> }.into_any(),
            "models" => view! { <ModelBoard summary /> }.into_any(),
            _ => view! { <Problems summary /> }.into_any(),
        }
    };
    view! {
        <div id=PLACE class="tabs"><Filter label="Board" key=KEY choices=named(&BOARDS) /></div>
        {shown}
    }
}

#[component]
fn ModelBoard(summary: Arc<HardwareSummary>) -> impl IntoView {
    let path = link("/models", [("hardware", summary.hardware.slug.to_string())]);
    let train = format!("{path}#train");
    let models = remote::<Vec<ModelSummary>>(move || Some(path.clone()));
    let cards = move |models: Arc<Vec<ModelSummary>>| {
        if models.is_empty() {
            let train = train.clone();
            return empty(
                "No model has been trained for this hardware",
                view! { "What has been measured may be enough: " <a href=train>"train one"</a> "." },
            );
        }
        view! { <div class="cards">{models.iter().map(card).collect_view()}</div> }.into_any()
    };
    view! {
        <section class="section" aria-labelledby="board-title">
            <h2 id="board-title">"Models"</h2>
            <Loaded remote=models height="14rem" children=cards />
        </section>
    }
}

#[component]
fn ContributorBoard(summary: Arc<HardwareSummary>) -> impl IntoView {
    let slug = summary.hardware.slug.to_string();
    let all = remote::<Vec<HardwareContributor>>(move || Some(format!("/hardware/{slug}/contributors")));
    view! {
        <section class="section" aria-labelledby="board-title">
            <h2 id="board-title">"Contributors"</h2>
            <p class="hint">"Of all operators, types and methods. All that is sent without an account counts as one contributor."</p>
            <Loaded remote=all height="14rem" children=move |all| contributor_table(&all) />
        </section>
    }
}

fn contributor_table(all: &[HardwareContributor]) -> AnyView {
    if all.is_empty() {
        return be_the_first("Nobody has measured this hardware yet");
    }
    view! {
        {table([
            head("Contributor"), num("Problems"), num("Timings"), num("Uploads"), num("Newest"),
            num("Against others").why("How much longer or shorter its times are than those of the others on the same problems, and on how many problems"),
        ]).rows(all.iter().map(contributor_row).collect_view())}
    }
    .into_any()
}

fn contributor_row(one: &HardwareContributor) -> impl IntoView + use<> {
    let name = one.name.as_ref().map_or_else(|| "without an account".to_owned(), ToString::to_string);
    let compared = one.log_ratio.map_or_else(
        || "nobody else measured".to_owned(),
        |ratio| format!("{}, {}", deviation(ratio), format::counted(one.compared_problems, "problem")),
    );
    view! {
        <tr>
            <td>{name}</td>
            <td class="num">{format::count(one.problems)}</td>
            <td class="num">{format::count(one.timings)}</td>
            <td class="num">{format::count(one.uploads)}</td>
            <td class="num">{format::day(&one.newest_at)}</td>
            <td class="num">{compared}</td>
        </tr>
    }
}

/// Words for the logarithm of (an account's times / the times of others).
fn deviation(log_ratio: f64) -> String {
    let share = log_ratio.exp() - 1.0;
    format!(
        "{}\u{a0}% {}",
        format::three_digits(share.abs() * 100.0),
        if share < 0.0 { "shorter" } else { "longer" }
    )
}

#[cfg(test)]
mod contributors_tests {
    use super::*;

    #[test]
    fn deviations_are_in_words() {
        for (ratio, words) in [(1.02_f64, "2.00 % longer"), (0.98, "2.00 % shorter"), (1.0, "0 % longer")] {
            assert_eq!(deviation(ratio.ln()).replace('\u{a0}', " "), words);
        }
    }
}
