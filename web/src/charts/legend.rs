//! What the colours and shapes of a chart mean. A saved chart has it, too.

use leptos::prelude::*;

use super::look::{Shape, Tone};

/// A line below the chart for each kind of dot.
pub(crate) fn legend(entries: Vec<(Shape, Tone, String)>) -> impl IntoView {
    let entry = |(shape, tone, words): (Shape, Tone, String)| {
        view! {
            <li>
                <svg viewBox="0 0 10 10" aria-hidden="true">
                    <path class=format!("marks {}", tone.class()) d=shape.outline() />
                </svg>
                {words}
            </li>
        }
    };
    view! { <ul class="legend">{entries.into_iter().map(entry).collect_view()}</ul> }
}
