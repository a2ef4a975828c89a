//! One row of the leaderboard.

use diode_core::api::LeaderboardRow;
use leptos::prelude::*;

use crate::components::BarCell;
use crate::format;
use crate::query::link;

/// `fastest` is the rate at which the bar is full.
pub(super) fn row(
    row: &LeaderboardRow,
    slug: &str,
    fastest: f64,
    with_library: bool,
) -> impl IntoView + use<> {
    let parameters = [("hardware", slug.to_owned()), ("method", row.method.to_string())];
    let href = link(&format!("/problems/{}", row.problem_id), parameters);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let dtype = row.problem.a_dtype.to_string();
    let library = row.library_us.map(format::time);
    // Where only one contributor has measured at all, every row would say so.
    let is_alone = row.unconfirmed && row.contributors > 1;
    let mark = is_alone.then(|| view! { <span class="dim" title="One contributor alone has timed this config">" unconfirmed"</span> });
    view! {
        <tr>
            <td><a href=href>{row.problem.dims()}</a></td>
            <td class="roomy">{row.problem.op.to_string()}</td>
            <td class="roomy">{dtype}</td>
            <td class="mono">{row.best.label()}{mark}</td>
            <td class="num">{format::time(row.best_us)}</td>
            <BarCell text=or_dash(row.tflops.map(format::three_digits)) share=row.tflops.unwrap_or(0.0) / fastest />
            <td class="num">{or_dash(row.roofline_share.map(format::percent))}</td>
            <td class="num">{or_dash(row.gain_over_defaults.map(format::factor))}</td>
            {with_library.then(|| view! { <td class="num">{or_dash(library)}</td> })}
            <td class="num dim">{format::count(row.configs)}</td>
        </tr>
    }
}
