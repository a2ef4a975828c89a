//! The problems that a model is judged by, as table rows.

use std::sync::Arc;

use leptos::prelude::*;

use crate::charts::JudgedProblem;
use crate::components::Explained;
use crate::format;

/// A table with all problems of the chart.
#[component]
pub(super) fn EachProblem(problems: Arc<Vec<JudgedProblem>>) -> impl IntoView {
    // The rows are made when the table is opened: few readers open it, and hundreds of rows block a slow
    // computer.
    let wanted = RwSignal::new(false);
    let rows = move || wanted.get().then(|| problems.iter().map(problem_row).collect_view());
    view! {
        <details on:toggle=move |_| wanted.set(true)>
            <summary>"The same as a table"</summary>
            <div class="table-box long" tabindex="0">
                <table data-testid="each-problem">{problem_head()}<tbody>{rows}</tbody></table>
            </div>
        </details>
    }
}

pub(super) fn problem_head() -> impl IntoView {
    view! {
        <thead>
            <tr>
                <th>"Problem"</th>
                <th class="num">"Measured"</th>
                <th class="num">"Predicted"</th>
                <th class="num"><Explained text="Factor" why="Predicted / measured time" /></th>
            </tr>
        </thead>
    }
}

pub(super) fn problem_row(problem: &JudgedProblem) -> impl IntoView + use<> {
    let JudgedProblem { name, measured, predicted, href } = problem;
    view! {
        <tr>
            <td><a href=href.clone()>{name.clone()}</a></td>
            <td class="num">{format::time(*measured)}</td>
            <td class="num">{format::time(*predicted)}</td>
            <td class="num">{format::factor(predicted / measured)}</td>
        </tr>
    }
}
