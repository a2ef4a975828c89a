//! A map of the filtered problems by M and N: where Triton is faster than the library, and which tiles win.

use std::collections::BTreeSet;
use std::sync::Arc;

use diode_api::{HardwareSummary, SizeCell, SizeMap, SizeRange};
use leptos::prelude::*;
use leptos_router::hooks::use_query_map;

use crate::charts::Tone;
use crate::components::{Chips, Choice, Explained, empty, named};
use crate::format;
use crate::pages::hardware::filters::{Filter, Filtered, any_fault, filter_parameters};
use crate::query::{History, link, parameter, use_set_parameters};
use crate::remote::remote;

/// Gives the address of the leaderboard with the problems of a cell.
type ProblemsOf = Arc<dyn Fn(&SizeCell) -> String + Send + Sync>;

const KEY: &str = "cells";
const TILES: &str = "tiles";

#[component]
pub(super) fn SizeBoard(summary: Arc<HardwareSummary>) -> impl IntoView {
    let (map, any_fault) = (use_query_map(), any_fault());
    let problems_of: ProblemsOf = {
        let summary = Arc::clone(&summary);
        Arc::new(move |cell| {
            let mut given = map.with_untracked(|map| filter_parameters(&summary, map));
            let (m, n) = (cell.m, cell.n);
            let ends = [("min_m", m.least), ("max_m", m.most), ("min_n", n.least), ("max_n", n.most)];
            given.retain(|(key, _)| !ends.iter().any(|(end, _)| end == key));
            given.extend(ends.map(|(key, end)| (key, end.to_string())));
            link(&format!("/hardware/{}", summary.hardware.slug), given)
        })
    };
    let sizes = remote::<SizeMap>(move || {
        let given = map.with(|map| filter_parameters(&summary, map));
        (!any_fault.get()).then(|| link(&format!("/hardware/{}/sizes", summary.hardware.slug), given))
    });
    let shown = parameter(KEY);
    let choices = named(&[("", "Triton against the library"), (TILES, "winning tile")]);
    view! {
        <section class="section" aria-labelledby="board-title" data-testid="sizes">
            <h2 id="board-title">"By size"</h2>
            <p class="hint">
                "Problems whose M and N lie within a factor of √2 of the same powers of two share a cell."
            </p>
            <Filter label="Cells" key=KEY choices />
            <div class="section" class:busy=move || sizes.busy()>
                <Filtered
                    remote=sizes
                    height="34rem"
                    children=move |sizes| view! { <Sizes sizes shown problems_of=Arc::clone(&problems_of) /> }
                />
            </div>
        </section>
    }
}

#[component]
fn Sizes(sizes: Arc<SizeMap>, shown: Memo<String>, problems_of: ProblemsOf) -> impl IntoView {
    let depths = depths(&sizes);
    if sizes.cells.is_empty() {
        return view! { {depths} {empty("No problems to show", "None is left by the filters.")} }.into_any();
    }
    let table = move || heat(&sizes.cells, shown.get() == TILES, &problems_of);
    view! { {depths} {table} }.into_any()
}

/// Buttons for the ranges of K. A press sets the filter.
fn depths(sizes: &SizeMap) -> impl IntoView + use<> {
    let (least, most) = (parameter("min_k"), parameter("max_k"));
    let set = use_set_parameters();
    let current = Memo::new(move |_| match (least.get(), most.get()) {
        (least, most) if least.is_empty() && most.is_empty() => String::new(),
        (least, most) => format!("{least}-{most}"),
    });
    let class = |range: SizeRange| format!("{}-{}", range.least, range.most);
    let any = (String::new(), "any".to_owned());
    let classes = sizes.depths.iter().map(|depth| (class(depth.k), around(depth.k)));
    let choices: Vec<Choice> = std::iter::once(any).chain(classes).collect();
    let choose = move |value: String| {
        let (least, most) = value.split_once('-').unwrap_or_default();
        set(&[("min_k", least.to_owned()), ("max_k", most.to_owned())], History::Push);
    };
    view! { <Chips label="K about" choices current choose /> }
}

/// The power of two within a range.
fn around(range: SizeRange) -> String {
    format::count((range.most / 2 + 1).next_power_of_two())
}

fn heat(cells: &[SizeCell], are_tiles: bool, problems_of: &ProblemsOf) -> impl IntoView + use<> {
    let columns: BTreeSet<SizeRange> = cells.iter().map(|cell| cell.n).collect();
    let rows = cells.chunk_by(|a, b| a.m == b.m).map(|row| {
        let cell = |n: &SizeRange| match row.iter().find(|cell| cell.n == *n) {
            Some(cell) if are_tiles => tile(cell, problems_of(cell)).into_any(),
            Some(cell) => ratio(cell, problems_of(cell)).into_any(),
            None => view! { <td></td> }.into_any(),
        };
        view! {
            <tr>
                <th scope="row"><Explained text=around(row[0].m) why=format!("M from {}", range(row[0].m)) /></th>
                {columns.iter().map(cell).collect_view()}
            </tr>
        }
    });
    let rows = rows.collect_view();
    let head = columns.iter().map(|n| {
        view! { <th scope="col" class="num"><Explained text=around(*n) why=format!("N from {}", range(*n)) /></th> }
    });
    view! {
        <div class="table-box" tabindex="0">
            <table class="heat" data-testid="size-map">
                <thead><tr><th scope="col">"M \\ N"</th>{head.collect_view()}</tr></thead>
                <tbody>{rows}</tbody>
            </table>
        </div>
        <p class="hint">{if are_tiles {
            "The tile that is fastest most often, and on how many of the cell's problems. The number leads to the problems."
        } else {
            "+7 %: Triton is faster, and the library takes 7 % longer on average; −7 %: Triton takes longer. Below it, the number of \
             problems where both were timed, which leads to them. Cells of fewer than five problems are pale: they say little."
        }}</p>
    }
}

fn ratio(cell: &SizeCell, problems: String) -> impl IntoView + use<> {
    let text = cell.triton_over_library.map_or_else(|| "–".to_owned(), signed);
    let few = if cell.compared < FEW { " few" } else { "" };
    view! {
        <td class=format!("num ratio-{}{few}", Tone::of(cell.triton_over_library).class())>
            {text} {to_problems(cell, problems, format::count(cell.compared))}
        </td>
    }
}

/// With fewer problems than this, a mean says little.
const FEW: u64 = 5;

/// How much longer the slower of the two takes, given library time / Triton time: `+7 %` where Triton is faster, else `−7 %`.
fn signed(ratio: f64) -> String {
    let (sign, more) = (if ratio < 1.0 { '−' } else { '+' }, ratio.max(1.0 / ratio) - 1.0);
    match more {
        _ if more < 0.005 => "0\u{a0}%".to_owned(),
        _ if more < 0.995 => format!("{sign}{:.0}\u{a0}%", more * 100.0),
        _ => format!("{sign}{:.1}×", more + 1.0),
    }
}

/// A link in the small print of a cell.
fn to_problems(cell: &SizeCell, href: String, text: String) -> impl IntoView + use<> {
    let name = format!("{text}: problems with M about {} and N about {}", around(cell.m), around(cell.n));
    view! { <small><a href=href aria-label=name>{text}</a></small> }
}

fn tile(cell: &SizeCell, problems: String) -> impl IntoView + use<> {
    // The line may end before K, so that narrow columns are enough.
    let text = cell.tile.map_or_else(|| "–".to_owned(), |[m, n, k]| format!("{m}×{n}\u{200b}×{k}"));
    let of = format!("{} of {}", format::count(cell.tile_problems), format::count(cell.problems));
    let share = cell.tile_problems as f64 / cell.problems.max(1) as f64;
    let step = match share {
        0.0 => "heat-0",
        _ if share < 0.34 => "heat-1",
        _ if share < 0.67 => "heat-2",
        _ => "heat-3",
    };
    view! { <td class=format!("num tile {step}")>{text} {to_problems(cell, problems, of)}</td> }
}

fn range(range: SizeRange) -> String {
    format!("{} to {}", format::count(range.least), format::count(range.most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_named_by_its_power_of_two() {
        for (least, most, power) in
            [(1, 1, "1"), (2, 2, "2"), (3, 5, "4"), (6, 11, "8"), (2897, 5792, "4,096")]
        {
            assert_eq!(around(SizeRange { least, most }), power);
        }
    }

    #[test]
    fn ratios_are_signed_shares() {
        for (ratio, text) in
            [(1.07, "+7 %"), (1.0 / 1.07, "−7 %"), (1.0, "0 %"), (3.0, "+3.0×"), (0.2, "−5.0×")]
        {
            assert_eq!(signed(ratio).replace('\u{a0}', " "), text);
        }
    }
}
