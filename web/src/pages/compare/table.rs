//! The compared problems, one by one.

use std::sync::Arc;

use diode_api::{ComparedProblem, Ratios};
use diode_core::Method;
use leptos::prelude::*;

use crate::components::{Explained, RatioCell};
use crate::format;
use crate::query::{History, link, use_set_parameters};

/// The most rows that the server gives at once.
const MOST: u64 = 500;

#[component]
pub(super) fn Rows(
    ratios: Arc<Ratios>,
    names: [String; 2],
    /// The hardware of both sides, for links to the problems' pages. `None` if the sides are uploads.
    slugs: Option<[String; 2]>,
) -> impl IntoView {
    if ratios.items.is_empty() {
        return ().into_any();
    }
    let set = use_set_parameters();
    let (shown, all) = (ratios.items.len() as u64, ratios.slower + ratios.faster + ratios.same);
    let more = (shown < all.min(MOST)).then(|| {
        let most = all.min(MOST);
        view! {
            <button type="button" class="button small" on:click=move |_| set(&[("limit", MOST.to_string())], History::Push)>
                {format!("Show {}", format::count(most))}
            </button>
        }
    });
    let [a, b] = names;
    let title = format!("Time on {a} / time on {b}: above 1 where {b} is faster");
    let rows = ratios.items.iter().map(|item| row(item, slugs.as_ref(), ratios.method)).collect_view();
    view! {
        <div class="table-box board">
            <table data-testid="compared">
                <thead>
                    <tr>
                        <th>"M×N×K"</th>
                        <th class="roomy">"Op"</th>
                        <th class="roomy">"Dtype"</th>
                        <th class="roomy">"B"</th>
                        <th class="roomy">{format!("Config, {a}")}</th>
                        <th class="num">{format!("Time, {a}")}</th>
                        <th class="roomy">{format!("Config, {b}")}</th>
                        <th class="num">{format!("Time, {b}")}</th>
                        <th class="num"><Explained text="Speed ratio" why=title /></th>
                    </tr>
                </thead>
                <tbody>{rows}</tbody>
            </table>
        </div>
        <div class="table-foot">
            <span>{format!("{} of {}", format::count(shown), format::counted(all, "problem"))}</span>
            {more}
        </div>
    }
    .into_any()
}

fn row(item: &ComparedProblem, slugs: Option<&[String; 2]>, method: Option<Method>) -> impl IntoView + use<> {
    let path = format!("/problems/{}", item.problem_id);
    let method = method.map(|method| method.to_string()).unwrap_or_default();
    let hardware = slugs.map(|[_, b]| b.clone()).unwrap_or_default();
    let href = link(&path, [("hardware", hardware), ("method", method)]);
    let p = &item.problem;
    view! {
        <tr>
            <td><a href=href>{p.dims()}</a></td>
            <td class="roomy">{p.op.to_string()}</td>
            <td class="roomy">{p.a_dtype.to_string()}</td>
            <td class="roomy">{p.b_layout.to_string()}</td>
            <td class="mono roomy">{format::config(&item.a.config, p)}</td>
            <td class="num">{format::time(item.a.us)}</td>
            <td class="mono roomy">{format::config(&item.b.config, p)}</td>
            <td class="num">{format::time(item.b.us)}</td>
            <RatioCell ratio=Some(item.b_over_a) />
        </tr>
    }
}
