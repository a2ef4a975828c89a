//! One row of the leaderboard.

use diode_api::{KernelResult, Kernels, LeaderboardRow};
use leptos::prelude::*;

use super::kernels::{other, shown};
use super::picks::{self, PicksByProblem};
use crate::components::{Explained, RatioCell};
use crate::format;
use crate::query::link;

/// `picks` is `None` if the hardware has no model.
pub(super) fn row(
    row: &LeaderboardRow,
    slug: &str,
    kernels: Kernels,
    picks: Option<PicksByProblem>,
) -> impl IntoView + use<> {
    let parameters = [("hardware", slug.to_owned()), ("method", row.method.to_string())];
    let href = link(&format!("/problems/{}", row.problem_id), parameters);
    let dtype = row.problem.a_dtype.to_string();
    let shown = shown(row, kernels);
    // If the problem has a single contributor, there is no mark. Hardware with one contributor
    // would have it in every row.
    let is_alone =
        row.unconfirmed && row.contributors > 1 && shown.is_some_and(|shown| shown.config == row.best);
    let mark = is_alone.then(
        || view! { " " <Explained text="unconfirmed" why="One contributor alone has timed this config" /> },
    );
    let ties = shown.filter(|shown| !shown.config.is_library()).map(|_| format::count(row.triton_ties));
    let pick = picks.map(|picks| picks::cell(row.problem_id.clone(), picks));
    view! {
        <tr>
            <td><a href=href>{row.problem.dims()}</a></td>
            <td class="roomy">{row.problem.op.to_string()}</td>
            <td class="roomy">{dtype}</td>
            <td class="mono">{format::or_dash(shown.map(|shown| format::config(&shown.config, &row.problem)))}{mark}</td>
            <td class="num">{format::or_dash(shown.map(|shown| format::time(shown.us)))}</td>
            <td class="num dim roomy">{format::or_dash(shown.and_then(spread))}</td>
            <td class="num dim roomy">{format::or_dash(ties)}</td>
            <td class="num">{format::or_dash(shown.and_then(|shown| shown.tflops).map(format::three_digits))}</td>
            <td class="num">{format::or_dash(shown.and_then(|shown| shown.roofline_share).map(format::percent))}</td>
            <td class="num">{format::or_dash(shown.and_then(|shown| shown.gain_over_defaults).map(format::factor))}</td>
            <td class="num">{format::or_dash(other(row, kernels).map(|other| format::time(other.us)))}</td>
            <RatioCell ratio=row.triton_over_library />
            {pick}
        </tr>
    }
}

fn spread(shown: &KernelResult) -> Option<String> {
    Some(format!("±{}", format::percent(shown.spread? / 2.0)))
}
