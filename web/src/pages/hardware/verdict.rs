//! How often Triton wins, in words.

use diode_core::Comparison;
use leptos::prelude::*;

use crate::format;

/// `None` if the library was timed on no problem.
pub(super) fn verdict(comparison: &Comparison) -> Option<impl IntoView + use<>> {
    let Comparison { problems, wins, ties, ratio } = *comparison;
    let speed = format!(
        " The times of {} differ by 1 % at most. On the geometric mean Triton runs at {} the library's speed.",
        format::count(ties),
        format::factor(ratio?),
    );
    let wins = format!("Triton wins {} of {}", format::count(wins), format::counted(problems, "problem"));
    Some(view! {
        <p class="verdict" data-testid="verdict">
            <strong>{wins}</strong> " where the library was timed, too." <span class="hint">{speed}</span>
        </p>
    })
}
