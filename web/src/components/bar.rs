//! Bars inside the rows of tables.

use leptos::prelude::*;

/// A bar that is full at 1.
#[component]
pub(crate) fn Bar(share: f64) -> impl IntoView {
    let width = format!("width: {:.1}%", (share * 100.0).clamp(0.0, 100.0));
    view! { <span class="bar" aria-hidden="true"><i style=width></i></span> }
}

/// A cell of a table with a number and its bar.
#[component]
pub(crate) fn BarCell(text: String, share: f64) -> impl IntoView {
    view! { <td class="num"><span class="bar-cell">{text} <Bar share /></span></td> }
}
