//! Bars in table rows.

use leptos::prelude::*;

/// A bar for a share. It is full at 1.
#[component]
pub(crate) fn Bar(share: f64) -> impl IntoView {
    let width = format!("width: {:.1}%", (share * 100.0).clamp(0.0, 100.0));
    view! { <span class="bar" aria-hidden="true"><i style=width></i></span> }
}

/// A table cell with a number and a bar.
#[component]
pub(crate) fn BarCell(text: String, share: f64) -> impl IntoView {
    view! { <td class="num"><span class="bar-cell">{text} <Bar share /></span></td> }
}
