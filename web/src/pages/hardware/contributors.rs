//! Who measured a hardware.

use std::sync::Arc;

use diode_api::{HardwareContributor, HardwareSummary};
use leptos::prelude::*;

use crate::components::{Empty, Explained, Loaded};
use crate::format;
use crate::remote::remote;

#[component]
pub(super) fn ContributorBoard(summary: Arc<HardwareSummary>) -> impl IntoView {
    let slug = summary.hardware.slug.to_string();
    let all = remote::<Vec<HardwareContributor>>(move || Some(format!("/hardware/{slug}/contributors")));
    view! {
        <section class="section" aria-labelledby="board-title">
            <h2 id="board-title">"Contributors"</h2>
            <p class="hint">"Of all operators, types and methods; the filters above do not apply here. All that is sent without an account counts as one contributor."</p>
            <Loaded remote=all height="14rem" children=move |all| table(&all) />
        </section>
    }
}

fn table(all: &[HardwareContributor]) -> AnyView {
    if all.is_empty() {
        return view! { <Empty heading="Nobody has measured this hardware yet">"Be the first: " <a href="/contribute">"contribute measurements"</a> "."</Empty> }
            .into_any();
    }
    view! {
        <div class="table-box" tabindex="0">
            <table>
                <thead>
                    <tr>
                        <th>"Contributor"</th>
                        <th class="num">"Problems"</th>
                        <th class="num">"Timings"</th>
                        <th class="num">"Uploads"</th>
                        <th class="num">"Newest"</th>
                        <th class="num"><Explained text="Against others" why="How much longer or shorter its times are than those of the others on the same problems, and on how many problems" /></th>
                    </tr>
                </thead>
                <tbody>{all.iter().map(row).collect_view()}</tbody>
            </table>
        </div>
    }
    .into_any()
}

fn row(one: &HardwareContributor) -> impl IntoView + use<> {
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
mod tests {
    use super::*;

    #[test]
    fn deviations_are_in_words() {
        for (ratio, words) in [(1.02_f64, "2.00 % longer"), (0.98, "2.00 % shorter"), (1.0, "0 % longer")] {
            assert_eq!(deviation(ratio.ln()).replace('\u{a0}', " "), words);
        }
    }
}
