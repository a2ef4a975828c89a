//! How much of the plan has been measured, where the holes are, and what comes next.

use std::sync::Arc;

use diode_api::{
    Coverage, CoverageCell, CoverageMap, CoveragePart, HardwareSummary, PlannedProblem, SizeRange,
};
use diode_core::{DType, Op, Scaling};
use leptos::prelude::*;

use crate::components::{BarCell, Loaded, Stat, Stats, empty, head, num, table};
use crate::format;
use crate::query::{History, link, parameter, use_set_parameters};
use crate::remote::remote;

#[component]
pub(super) fn CoverageBoard(summary: Arc<HardwareSummary>) -> impl IntoView {
    let slug = summary.hardware.slug.to_string();
    let whole = {
        let slug = slug.clone();
        remote::<Coverage>(move || Some(format!("/hardware/{slug}/coverage"))).renewed()
    };
    let filters = ["op", "dtype", "scaling"].map(|key| (key, parameter(key)));
    let map = remote::<CoverageMap>(move || {
        let wanted = filters.map(|(key, value)| (key, value.get()));
        Some(link(&format!("/hardware/{slug}/coverage/map"), wanted))
    });
    let shown = Memo::new(move |_| map.value().map(|map| (map.op, map.dtype, map.scaling)));
    view! {
        <section class="section" aria-labelledby="board-title">
            <h2 id="board-title">"Coverage"</h2>
            <p class="hint">
                "Agents measure by a plan. It tells kinds of problems apart: op, type, scaling, layout of B, alignment, and "
                "bins of four for B, M, N and K. Scaled and grouped ones have the sizes of real models. A kind is covered if one of its problems was measured; the others are holes."
            </p>
            <Loaded remote=whole height="24rem" children=move |whole| parts(&whole, shown) />
            <div class="section" class:busy=move || map.busy()>
                <Loaded remote=map height="30rem" children=move |map| mapped(&map) />
            </div>
        </section>
    }
}

/// The part of the plan that the map shows.
type Shown = Memo<Option<(Op, DType, Scaling)>>;

fn parts(whole: &Coverage, shown: Shown) -> impl IntoView + use<> {
    let stats = [
        Stat::new("kinds covered", format::count(whole.covered)),
        Stat::new("kinds in the plan", format::count(whole.kinds)),
        Stat::new("problems measured", format::count(whole.problems)),
        Stat::new("kept for judging models", format::count(whole.kept)),
        Stat::new("confirmed by a second one", format::count(whole.confirmed))
            .explained("Problems that a second contributor was asked to measure, and has measured"),
        Stat::new("wait or are leased", format::count(whole.waiting + whole.leased))
            .explained("Problems that agents are to measure, or measure now"),
    ];
    view! {
        <Stats stats />
        {table([
            head("Op"), head("Dtype"), head("Scaling"), num("Covered"), num("Kinds"), num("Holes"), num("Problems"),
            head("Map"),
        ]).rows(whole.parts.iter().map(|part| view! { <Part part=part.clone() shown /> }).collect_view())}
    }
}

#[component]
fn Part(part: CoveragePart, shown: Shown) -> impl IntoView {
    let CoveragePart { op, dtype, scaling, kinds, covered, problems } = part;
    let set = use_set_parameters();
    let share = covered as f64 / kinds.max(1) as f64;
    let pressed = move || if shown.get() == Some((op, dtype, scaling)) { "true" } else { "false" };
    let show = move |_| {
        let chosen = [("op", op.to_string()), ("dtype", dtype.to_string()), ("scaling", scaling.to_string())];
        set(&chosen, History::Push);
    };
    let name = format::part(op, dtype, scaling);
    view! {
        <tr>
            <td>{op.to_string()}</td>
            <td>{dtype.to_string()}</td>
            <td>{if scaling == Scaling::None { "–".to_owned() } else { scaling.to_string() }}</td>
            <BarCell text=format::percent(share) share />
            <td class="num">{format::count(kinds)}</td>
            <td class="num">{format::count(kinds - covered)}</td>
            <td class="num">{format::count(problems)}</td>
            <td>
                <button type="button" class="chip" aria-pressed=pressed aria-label=format!("Map of {name}") on:click=show>
                    "show"
                </button>
            </td>
        </tr>
    }
}

fn mapped(map: &CoverageMap) -> impl IntoView + use<> {
    let heading = format!("Map of {}", format::part(map.op, map.dtype, map.scaling));
    let cells = if map.cells.is_empty() {
        empty(
            "The plan has nothing of this type",
            "The table above has all that agents are asked for on this hardware. People who need other types measure them.",
        )
    } else {
        cells(&map.cells).into_any()
    };
    let rows = map.next.iter().map(next_row).collect_view();
    let next = if map.next.is_empty() {
        empty("Nothing is planned", "No kind has a problem left that a device can measure.")
    } else {
        view! {
            {table([
                head("M×N×K"), head("Op"), head("Dtype").roomy(), head("Why"), num("Expected").roomy(),
            ]).rows(rows)}
        }
        .into_any()
    };
    view! {
        <h3>{heading}</h3>
        <p class="hint">"Kinds covered of kinds, by M and N, and below them how many problems were measured. The darker, the more kinds."</p>
        {cells}
        <h3>"What comes next"</h3>
        <p class="hint">"Of all parts of the plan. An agent gets the first that its device can measure."</p>
        {next}
    }
}

fn cells(all: &[CoverageCell]) -> impl IntoView + use<> {
    let columns: Vec<SizeRange> =
        all.iter().take_while(|cell| cell.m == all[0].m).map(|cell| cell.n).collect();
    let rows = all.chunk_by(|a, b| a.m == b.m).map(|row| {
        view! {
            <tr>
                <th scope="row">{range(row[0].m)}</th>
                {row.iter().map(cell).collect_view()}
            </tr>
        }
    });
    view! {
        <div class="table-box" tabindex="0">
            <table class="heat" data-testid="map">
                <thead>
                    <tr>
                        <th scope="col">"M \\ N"</th>
                        {columns.into_iter().map(|n| view! { <th scope="col" class="num">{range(n)}</th> }).collect_view()}
                    </tr>
                </thead>
                <tbody>{rows.collect_view()}</tbody>
            </table>
        </div>
    }
}

fn cell(cell: &CoverageCell) -> impl IntoView + use<> {
    let share = cell.covered as f64 / cell.kinds.max(1) as f64;
    let step = match share {
        0.0 => "heat-0",
        _ if share < 0.25 => "heat-1",
        _ if share < 0.5 => "heat-2",
        _ if share < 0.999 => "heat-3",
        _ => "heat-4",
    };
    view! {
        <td class=format!("num {step}")>
            {format!("{}/{}", cell.covered, cell.kinds)} <small>{format::count(cell.problems)}</small>
        </td>
    }
}

fn range(range: SizeRange) -> String {
    format!("{}–{}", range.least, range.most)
}

fn next_row(next: &PlannedProblem) -> impl IntoView + use<> {
    view! {
        <tr>
            <td>{next.problem.dims()}</td>
            <td>{next.problem.op.to_string()}</td>
            <td class="roomy">{next.problem.a_dtype.to_string()}</td>
            <td class="wrap">{next.why.clone()}</td>
            <td class="num roomy">{format::time(next.seconds * 1e6)}</td>
        </tr>
    }
}
