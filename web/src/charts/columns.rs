//! A row of columns. Each column has a tooltip for the pointer and the arrow keys. The table beside the chart has
//! the same numbers.

use leptos::ev::KeyboardEvent;
use leptos::html::Div;
use leptos::prelude::*;

use super::save::SaveChart;

/// The share of its place that a column fills.
const FILLED: f64 = 0.86;

/// One column. Its height is a share of the chart's height.
pub(crate) struct Column {
    pub(crate) share: f64,
    pub(crate) class: &'static str,
    /// The height of a mark, also as a share of the chart's height.
    pub(crate) mark: Option<f64>,
    pub(crate) text: String,
}

#[component]
pub(crate) fn Columns(
    columns: Vec<Column>,
    /// What a screen reader says about the chart.
    description: String,
    /// The labels below the first and the last column.
    ends: [String; 2],
    /// Where along the axis both sides of a comparison are equal.
    #[prop(default = None)]
    equal: Option<f64>,
    /// The label of the axis at the height of the chart.
    top: String,
) -> impl IntoView {
    let chart = NodeRef::<Div>::new();
    let percent = |share: f64| format!("{:.2}%", (share * 100.0).clamp(0.0, 100.0));
    let place = 1.0 / columns.len().max(1) as f64;
    let chosen = RwSignal::new(None::<usize>);
    let last = columns.len().saturating_sub(1);
    let keys = move |event: KeyboardEvent| {
        // Keys with these modifiers belong to the browser.
        if event.ctrl_key() || event.meta_key() || event.alt_key() {
            return;
        }
        let own = chosen.get_untracked();
        chosen.set(match event.key().as_str() {
            "ArrowRight" | "ArrowDown" => Some(own.map_or(0, |own| last.min(own + 1))),
            "ArrowLeft" | "ArrowUp" => Some(own.map_or(last, |own| own.saturating_sub(1))),
            "Home" => Some(0),
            "End" => Some(last),
            "Escape" => None,
            _ => return,
        });
        event.prevent_default();
    };
    let texts: StoredValue<Vec<String>> =
        StoredValue::new(columns.iter().map(|column| column.text.clone()).collect());
    let said = move || chosen.get().and_then(|index| texts.with_value(|texts| texts.get(index).cloned()));
    // The tooltip stands beside its column, on the side with more room.
    let tooltip = move || {
        let (index, text) = chosen.get().zip(said())?;
        let (left, right) = (place * index as f64, place * (index + 1) as f64);
        let side = if left + right > 1.0 {
            format!("right: {}", percent(1.0 - left))
        } else {
            format!("left: {}", percent(right))
        };
        Some(view! { <div class="tooltip" style=side>{text}</div> })
    };
    let columns = columns.into_iter().enumerate().map(|(index, column)| {
        let left = place * index as f64;
        let x = percent(left + place * (1.0 - FILLED) / 2.0);
        let width = percent(place * FILLED);
        let mark = column.mark.map(|share| {
            view! { <rect class="mark" x=x.clone() width=width.clone() y=percent(1.0 - share) height="2" /> }
        });
        view! {
            <g class:chosen=move || chosen.get() == Some(index)>
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
            <div
                class="columns"
                tabindex="0"
                role="group"
                aria-roledescription="chart"
                aria-label=format!("{description} Arrow keys go from column to column.")
                node_ref=chart
                on:keydown=keys
            >
                <svg aria-hidden="true">
                    {columns.collect_view()}
                    {equal.map(|share| view! { <line class="equal" x1=percent(share) x2=percent(share) y1="0" y2="100%" /> })}
                </svg>
                <span class="columns-top" aria-hidden="true">{top}</span>
                {tooltip}
                <p class="visually-hidden" aria-live="polite">{said}</p>
            </div>
            <div class="columns-ends" aria-hidden="true">
                <span>{first}</span>
                // At the ends there is no room for a label between theirs.
                {equal.filter(|share| (0.2..=0.8).contains(share)).map(|share| view! { <span style=format!("left: {}", percent(share))>"equal"</span> })}
                <span>{last}</span>
            </div>
            <div class="row"><SaveChart chart /></div>
        </div>
    }
}
