//! How the best Triton config compares with the library kernel, as a bar that starts in the middle.

use leptos::prelude::*;

use crate::format;

/// At this ratio the bar reaches the right end, at its inverse the left end.
const FULL: f64 = 2.0;

/// A cell with library time / Triton time. The bar goes right if Triton is faster, left if the library is.
#[component]
pub(crate) fn RatioCell(ratio: Option<f64>) -> impl IntoView {
    let text = ratio.map_or_else(|| "–".to_owned(), format::factor);
    let width = ratio.map_or(0.0, |ratio| (ratio.ln() / FULL.ln()).clamp(-1.0, 1.0) * 50.0);
    let class = if width < 0.0 { "slower" } else { "faster" };
    let style = format!("width: {:.1}%", width.abs());
    view! {
        <td class="num">
            <span class="bar-cell">
                {text}
                <span class="bar diverging" aria-hidden="true"><i class=class style=style></i></span>
            </span>
        </td>
    }
}
