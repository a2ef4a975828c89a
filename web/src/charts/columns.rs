//! A row of columns, each with what it says when pointed at. The table beside it has the same numbers.

use leptos::html::Div;
use leptos::prelude::*;

use super::save::SaveChart;

/// The part of a column's place that the column fills.
const FILLED: f64 = 0.86;

/// One column; its height is a share of the chart's.
pub(crate) struct Column {
    pub(crate) share: f64,
    pub(crate) class: &'static str,
    /// The height of a mark, as a share, too.
    pub(crate) mark: Option<f64>,
    pub(crate) text: String,
}

#[component]
pub(crate) fn Columns(
    columns: Vec<Column>,
    /// What a screen reader says of it.
    description: String,
    /// What stands below the first and below the last column.
    ends: [String; 2],
) -> impl IntoView {
    let chart = NodeRef::<Div>::new();
    let percent = |share: f64| format!("{:.2}%", (share * 100.0).clamp(0.0, 100.0));
    let place = 1.0 / columns.len().max(1) as f64;
    let columns = columns.into_iter().enumerate().map(|(index, column)| {
        let left = place * index as f64;
        let x = percent(left + place * (1.0 - FILLED) / 2.0);
        let width = percent(place * FILLED);
        let mark = column.mark.map(|share| {
            view! { <rect class="mark" x=x.clone() width=width.clone() y=percent(1.0 - share) height="2" /> }
        });
        view! {
            <g>
                <title>{column.text}</title>
                <rect class="place" x=percent(left) y="0" width=percent(place) height="100%" />
                <rect class=column.class x=x.clone() width=width.clone() y=percent(1.0 - column.share) height=percent(column.share) />
                {mark}
            </g>
        }
    });
    let [first, last] = ends;
    view! {
        <div class="columns-box">
            <div class="columns" node_ref=chart>
                <svg role="img" aria-label=description>{columns.collect_view()}</svg>
            </div>
            <div class="columns-ends" aria-hidden="true"><span>{first}</span><span>{last}</span></div>
            <div class="row"><SaveChart chart /></div>
        </div>
    }
}
