//! Bars inside the rows of tables.

use leptos::prelude::*;

/// A bar that is full at 1.
pub(crate) fn bar(share: f64) -> impl IntoView {
    let width = format!("width: {:.1}%", (share * 100.0).clamp(0.0, 100.0));
    view! { <span class="bar" aria-hidden="true"><i style=width></i></span> }
}

/// A number with its bar.
pub(crate) fn bar_cell(text: String, share: f64) -> impl IntoView {
    view! { <td class="num"><span class="bar-cell">{text} {bar(share)}</span></td> }
}
