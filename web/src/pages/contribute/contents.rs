//! The contents of a file, in words.

use diode_api::SetApart;
use diode_api::upload_check::Contents;
use leptos::prelude::*;

use crate::format;

/// The contents of a file that has been checked but not sent.
pub(super) fn contents(all: &[Contents]) -> impl IntoView + use<> {
    let rows = all.iter().map(|of| {
        view! { <dt>{of.name.clone()}</dt><dd>{counted(of.problems, of.timings, of.failures)}</dd> }
    });
    view! {
        <dl class="facts" data-testid="contents">{rows.collect_view()}</dl>
        {all.iter().flat_map(|of| set_apart(&of.set_apart)).collect_view()}
    }
}

pub(super) fn counted(problems: u64, timings: u64, failures: u64) -> String {
    let failures = match failures {
        0 => String::new(),
        failures => format!(", {}", format::counted(failures, "failed config")),
    };
    format!("{}, {}{failures}", format::counted(problems, "problem"), format::counted(timings, "timing"))
}

/// Which timings are not stored, and why.
pub(super) fn set_apart(parts: &[SetApart]) -> Vec<AnyView> {
    let sentence = |part: &SetApart| {
        let timings = format::counted(part.timings, "timing");
        format!("{timings} set apart ({}): {}", part.reason, part.example)
    };
    parts.iter().map(|part| view! { <p class="hint">{sentence(part)}</p> }.into_any()).collect()
}
